//! Connects, and brings the schema up to date.

use std::sync::Arc;

use super::dereference::Login;
use super::status::Facts;
use crate::api::StreamDatabase;
use crate::api::conditions::PROVISIONED;
use crate::controllers::context::Context;
use crate::controllers::databases::Live;
use crate::controllers::error::Problem;
use crate::database::{Database, Schema, connection, migrate as migrations};
use crate::statistics::{Watched, watch};

/// The pool that there is, or a new one where the login has changed; it has answered.
pub(super) async fn connect(
    context: &Context,
    resource: &StreamDatabase,
    login: Login,
    facts: &mut Facts,
) -> Result<Arc<Live>, Problem> {
    let key = super::key(resource);
    if let Some(live) = context
        .databases
        .live(&key)
        .filter(|live| live.revision == login.revision)
    {
        facts.server_version = Some(connection::inspect(&live.database.pool).await?.version);
        return Ok(live);
    }
    let schema =
        Schema::new(&resource.spec.schema).map_err(|error| Problem::invalid(format!("spec.schema: {error}")))?;
    // The pool would hide why it has no connection behind its time-out.
    login.credentials.check().await?;
    let pool = login.credentials.pool(resource.spec.pool.max_connections);
    facts.server_version = Some(connection::inspect(&pool).await?.version);
    let database = Database { pool, schema };
    migrate(&database, facts).await?;
    let (live, token) = Live::new(login.revision, database.clone());
    let watched = Watched {
        database,
        namespace: key.namespace,
        name: key.name,
        cluster_id: context.cluster_id.clone(),
        client: context.client.clone(),
        metrics: context.statistics.clone(),
    };
    tokio::spawn(watch(watched, token));
    Ok(Arc::new(live))
}

/// Migrates where the schema is not at the version that this release knows.
pub(super) async fn migrate(database: &Database, facts: &mut Facts) -> Result<(), Problem> {
    let provisioned = |error: crate::database::DatabaseError| Problem::Reported {
        condition: PROVISIONED,
        reason: error.reason(),
        message: error.to_string(),
    };
    let found = migrations::version(database).await?;
    facts.schema_version = if found == Some(migrations::newest_version()) {
        found
    } else {
        let version = migrations::migrate(&database.pool, &database.schema)
            .await
            .map_err(provisioned)?;
        tracing::info!(version, schema = database.schema.name(), "migrated the schema");
        Some(version)
    };
    Ok(())
}
