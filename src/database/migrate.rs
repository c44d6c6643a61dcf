//! Brings the schema of an installation to the version that this release knows.

use sqlx::migrate::Migrator;
use sqlx::{PgPool, Row};

use super::error::DatabaseError;
use super::schema::Schema;

static MIGRATIONS: Migrator = sqlx::migrate!();

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
    let mut transaction = pool.begin().await?;
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('sqlstreams.migrate.' || $1, 0))")
        .bind(schema.name())
        .execute(&mut *transaction)
        .await?;
    // CREATE SCHEMA IF NOT EXISTS asks for the right to create even where there is nothing to do.
    let exists: bool = sqlx::query("SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)")
        .bind(schema.name())
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
    migrator.set_locking(false);
    migrator.run_direct(None, &mut *transaction, false).await?;
    transaction.commit().await?;
    Ok(newest_version())
}

/// The version of the schema as it is; `None` where there is none.
///
/// # Errors
/// When the database does not answer.
pub async fn version(pool: &PgPool, schema: &Schema) -> Result<Option<i64>, DatabaseError> {
    let mut transaction = pool.begin().await?;
    let table: Option<String> = sqlx::query_scalar("SELECT to_regclass(format('%I._sqlx_migrations', $1::text))::text")
        .bind(schema.name())
        .fetch_one(&mut *transaction)
        .await?;
    if table.is_none() {
        return Ok(None);
    }
    let version = sqlx::query_scalar(schema.sql("SELECT max(version) FROM {schema}._sqlx_migrations"))
        .fetch_one(&mut *transaction)
        .await?;
    Ok(version)
}
