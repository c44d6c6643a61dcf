//! The status of a StreamDatabase.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::api::conditions::{DATABASE_REACHABLE, PROVISIONED};
use crate::api::{StreamDatabase, StreamDatabaseStatus};
use crate::controllers::context::Context;
use crate::controllers::error::Problem;
use crate::controllers::status::{self, Milestone, Shared, conditions, written};

/// What the steps found, as far as they came.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) server_version: Option<String>,
    pub(super) schema_version: Option<i64>,
    pub(super) streams: Option<i64>,
}

impl Shared for StreamDatabaseStatus {
    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    fn own_part(&self, conditions: Vec<Condition>) -> Self {
        Self {
            conditions,
            ..self.clone()
        }
    }
}

/// Writes what the steps found.
pub(super) async fn write(
    context: &Context,
    resource: &StreamDatabase,
    facts: &Facts,
    problem: Option<&Problem>,
) -> Result<(), Problem> {
    let current = resource.status.clone().unwrap_or_default();
    status::write(
        context,
        resource,
        &current,
        &compute(resource, &current, facts, problem),
    )
    .await
}

fn compute(
    resource: &StreamDatabase,
    current: &StreamDatabaseStatus,
    facts: &Facts,
    problem: Option<&Problem>,
) -> StreamDatabaseStatus {
    let milestones = [
        Milestone {
            kind: DATABASE_REACHABLE,
            reason: "Connected",
            message: "the database accepts the login".into(),
        },
        Milestone {
            kind: PROVISIONED,
            reason: "Migrated",
            message: "the schema is up to date".into(),
        },
    ];
    let wanted = conditions(&milestones, problem);
    StreamDatabaseStatus {
        observed_generation: resource.metadata.generation,
        conditions: written(&wanted, &current.conditions, resource.metadata.generation),
        server_version: facts.server_version.clone().or_else(|| current.server_version.clone()),
        schema_version: facts.schema_version.or(current.schema_version),
        streams: facts.streams.or(current.streams),
    }
}
