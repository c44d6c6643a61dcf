//! What a Stream names: its database; and who names it.

use kube::api::ListParams;
use kube::{Api, ResourceExt};

use crate::api::conditions::DATABASE_REACHABLE;
use crate::api::{ConsumerGroup, Stream, StreamDatabase};
use crate::controllers::context::Context;
use crate::controllers::databases::DatabaseKey;
use crate::controllers::error::Problem;
use crate::database::Database;

/// What a Stream rests on.
pub(super) struct Dependencies {
    pub(super) resource: StreamDatabase,
    pub(super) database: Database,
}

/// Looks the database up; it must be usable.
pub(super) async fn dependencies(context: &Context, stream: &Stream) -> Result<Dependencies, Problem> {
    let key = key(stream);
    let Some(resource) = find(context, &key).await? else {
        return Err(Problem::Reported {
            condition: DATABASE_REACHABLE,
            reason: "DatabaseNotFound",
            message: format!(
                "StreamDatabase {} does not exist in namespace {}; create it or correct spec.databaseRef",
                key.name, key.namespace
            ),
        });
    };
    let live = context.databases.usable(&key)?;
    Ok(Dependencies {
        resource,
        database: live.database.clone(),
    })
}

/// The database to clean up in, whether or not it was usable lately. `None` when there is none and
/// never was while this stream had anything in it.
pub(crate) async fn database_for_clean_up(context: &Context, stream: &Stream) -> Result<Option<Database>, Problem> {
    let key = key(stream);
    if let Some(live) = context.databases.live(&key) {
        return Ok(Some(live.database.clone()));
    }
    let provisioned = stream.status.as_ref().is_some_and(|status| status.stream_id.is_some());
    if !provisioned {
        return Ok(None);
    }
    context
        .databases
        .usable(&key)
        .map(|live| Some(live.database.clone()))
        .map_err(|problem| match problem {
            Problem::Waiting(_) => problem,
            other => Problem::Reported {
                condition: DATABASE_REACHABLE,
                reason: other.reason(),
                message: format!(
                    "cannot clean up: {other}; make the database answer, or set the annotation {}: \"true\" to let the \
                 resource go and leave its data as it is",
                    crate::api::ABANDON_ANNOTATION
                ),
            },
        })
}

/// The names of the ConsumerGroups that read the stream.
pub(super) async fn users(context: &Context, stream: &Stream) -> Result<Vec<String>, Problem> {
    let groups = Api::<ConsumerGroup>::namespaced(context.client.clone(), &stream.namespace().unwrap_or_default())
        .list(&ListParams::default())
        .await?;
    Ok(groups
        .iter()
        .filter(|group| group.spec.stream_ref.name == stream.name_any())
        .map(ResourceExt::name_any)
        .collect())
}

async fn find(context: &Context, key: &DatabaseKey) -> Result<Option<StreamDatabase>, Problem> {
    Ok(Api::namespaced(context.client.clone(), &key.namespace)
        .get_opt(&key.name)
        .await?)
}

pub(crate) fn key(stream: &Stream) -> DatabaseKey {
    DatabaseKey {
        namespace: stream.namespace().unwrap_or_default(),
        name: stream.spec.database_ref.name.clone(),
    }
}
