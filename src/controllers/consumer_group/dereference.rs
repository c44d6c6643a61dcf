//! What a ConsumerGroup names: its stream, the stream's database, and the Service that handles.

use std::str::FromStr as _;

use k8s_openapi::api::core::v1::Service;
use kube::{Api, ResourceExt};
use uuid::Uuid;

use crate::api::conditions::{PROVISIONED, READY};
use crate::api::{ConsumerGroup, Stream, StreamDatabase};
use crate::controllers::context::Context;
use crate::controllers::databases::DatabaseKey;
use crate::controllers::error::Problem;
use crate::database::{Database, StreamId};

/// What a ConsumerGroup rests on.
pub(super) struct Dependencies {
    pub(super) stream: Stream,
    pub(super) stream_id: StreamId,
    pub(super) database_resource: StreamDatabase,
    pub(super) database: Database,
}

/// Looks all of it up.
pub(super) async fn dependencies(context: &Context, group: &ConsumerGroup) -> Result<Dependencies, Problem> {
    let namespace = group.namespace().unwrap_or_default();
    let stream_name = &group.spec.stream_ref.name;
    let missing = |reason, message| Problem::Reported {
        condition: PROVISIONED,
        reason,
        message,
    };
    let Some(stream) = Api::<Stream>::namespaced(context.client.clone(), &namespace)
        .get_opt(stream_name)
        .await?
    else {
        return Err(missing(
            "StreamNotFound",
            format!(
                "Stream {stream_name} does not exist in namespace {namespace}; create it or correct spec.streamRef"
            ),
        ));
    };
    let database_name = &stream.spec.database_ref.name;
    let resource = Api::<StreamDatabase>::namespaced(context.client.clone(), &namespace)
        .get_opt(database_name)
        .await?;
    let Some(database_resource) = resource else {
        return Err(missing(
            "StreamNotReady",
            format!("Stream {stream_name}: StreamDatabase {database_name} does not exist"),
        ));
    };
    let database = database(context, &namespace, database_name)?;
    let uid = Uuid::from_str(&stream.uid().unwrap_or_default())
        .map_err(|_| Problem::Undecodable("metadata.uid of the Stream is no UUID".into()))?;
    let Some(stream_id) = database.owned_stream(&stream.stream_name(), uid).await? else {
        return Err(not_provisioned(&stream));
    };
    check_service(context, group, &namespace).await?;
    Ok(Dependencies {
        stream,
        stream_id,
        database_resource,
        database,
    })
}

fn database(context: &Context, namespace: &str, name: &str) -> Result<Database, Problem> {
    let key = DatabaseKey {
        namespace: namespace.into(),
        name: name.into(),
    };
    context.databases.usable(&key).map(|live| live.database.clone())
}

/// A stream that has only just been made is waited for; one that has a fault is named.
fn not_provisioned(stream: &Stream) -> Problem {
    let ready = stream
        .status
        .as_ref()
        .and_then(|status| status.conditions.iter().find(|it| it.type_ == READY));
    match ready {
        Some(ready) if ready.status == "False" => Problem::Reported {
            condition: PROVISIONED,
            reason: "StreamNotReady",
            message: format!("Stream {} is not ready: {}", stream.name_any(), ready.message),
        },
        _ => Problem::Waiting("the stream to be provisioned"),
    }
}

/// A Service of type ExternalName would lead out of the namespace. One that is not there yet is
/// none of the operator's business: deliveries fail and are tried again.
async fn check_service(context: &Context, group: &ConsumerGroup, namespace: &str) -> Result<(), Problem> {
    let Some(target) = group.spec.handler.http.as_ref().and_then(|http| http.service.as_ref()) else {
        return Ok(());
    };
    let service = Api::<Service>::namespaced(context.client.clone(), namespace)
        .get_opt(&target.name)
        .await?;
    let kind = service.and_then(|service| service.spec).and_then(|spec| spec.type_);
    if kind.as_deref() == Some("ExternalName") {
        return Err(Problem::invalid(format!(
            "spec.handler.http.service: Service {} is of type ExternalName; use handler.http.url for a host outside the cluster",
            target.name
        )));
    }
    Ok(())
}

/// The stream's name and database to clean up in. `None` when the group was never provisioned, or
/// when its stream is gone and took the group with it.
pub(super) async fn database_for_clean_up(
    context: &Context,
    group: &ConsumerGroup,
) -> Result<Option<(String, Database)>, Problem> {
    let namespace = group.namespace().unwrap_or_default();
    let streams = Api::<Stream>::namespaced(context.client.clone(), &namespace);
    let Some(stream) = streams.get_opt(&group.spec.stream_ref.name).await? else {
        return Ok(None);
    };
    let database = crate::controllers::stream::database_for_clean_up(context, &stream).await?;
    Ok(database.map(|database| (stream.stream_name(), database)))
}
