//! Brings the schema of an installation to the version that this release knows.

use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::{Connection, PgConnection, PgPool, Row};

use super::{Database, DatabaseError, Schema};

static MIGRATIONS: Migrator = sqlx::migrate!();

/// How long one look at the version may take.
const LIMIT: Duration = Duration::from_secs(10);

/// The newest version of the schema that this release knows.
#[must_use]
pub fn newest_version() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or(0)
}

/// Applies what is missing and returns the version reached. Safe to run from several processes
/// at once and behind a pooler: one transaction holds the lock and does it all, or nothing.
///
/// # Errors
/// [`DatabaseError::NewerSchema`] when a newer release was here, [`DatabaseError::PermissionDenied`]
/// when the schema is absent and the role may not create it.
pub async fn migrate(pool: &PgPool, schema: &Schema) -> Result<i64, DatabaseError> {
    // A connection of its own: see the end of `run`.
    let mut connection = pool.acquire().await?.detach();
    let result = run(&mut connection, schema).await;
    let closed = connection.close().await;
    result?;
    closed?;
    Ok(newest_version())
}

async fn run(connection: &mut PgConnection, schema: &Schema) -> Result<(), DatabaseError> {
    let mut transaction = connection.begin().await?;
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('sqlstreams.migrate.' || $1, 0))")
        .bind(schema.name())
        .persistent(false)
        .execute(&mut *transaction)
        .await?;
    // CREATE SCHEMA IF NOT EXISTS asks for the right to create even where there is nothing to do.
    let exists: bool = sqlx::query("SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)")
        .bind(schema.name())
        .persistent(false)
        .fetch_one(&mut *transaction)
        .await?
        .get(0);
    if !exists {
        sqlx::raw_sql(schema.sql("CREATE SCHEMA {schema}"))
            .execute(&mut *transaction)
            .await?;
    }
    sqlx::raw_sql(schema.sql("SET LOCAL search_path = {schema}, pg_temp"))
        .execute(&mut *transaction)
        .await?;
    let mut migrator = Migrator::with_migrations(MIGRATIONS.migrations.to_vec());
    // Its lock belongs to a session, which a pooler in transaction mode does not keep.
    migrator.set_locking(false);
    migrator.run_direct(None, &mut *transaction, false).await?;
    // It prepares statements by name, which a pooler's connection would keep for others to stumble over.
    sqlx::raw_sql("DEALLOCATE ALL").execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(())
}

/// The version of the schema as it is; `None` where there is none.
///
/// # Errors
/// When the database does not answer.
pub async fn version(database: &Database) -> Result<Option<i64>, DatabaseError> {
    let query = sqlx::query("SELECT to_regclass(format('%I._sqlx_migrations', $1::text)) IS NOT NULL");
    let exists: bool = database
        .ask_one(LIMIT, query.bind(database.schema.name()))
        .await?
        .try_get(0)?;
    if !exists {
        return Ok(None);
    }
    let query = sqlx::query(
        database
            .schema
            .sql("SELECT max(version) FROM {schema}._sqlx_migrations"),
    );
    Ok(database.ask_one(LIMIT, query).await?.try_get(0)?)
}
