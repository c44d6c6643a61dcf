//! The status of a ConsumerGroup, but for its numbers, which `statistics` writes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::desired;
use super::observe::WorkersFound;
use crate::api::conditions::{DATABASE_REACHABLE, PROVISIONED, WORKERS_AVAILABLE};
use crate::api::{ConsumerGroup, ConsumerGroupStatus, RetryPolicyStatus};
use crate::controllers::context::Context;
use crate::controllers::error::Problem;
use crate::controllers::status::{self, Milestone, Shared, conditions, written};
use crate::database::{GroupId, StreamId};
use crate::delivery::retry::RetryPolicy;

/// What the steps found, as far as they came.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) retry: Option<RetryPolicy>,
    pub(super) provisioned: Option<(StreamId, GroupId)>,
    pub(super) workers: Option<WorkersFound>,
}

impl Shared for ConsumerGroupStatus {
    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    fn own_part(&self, conditions: Vec<Condition>) -> Self {
        Self {
            observed_generation: self.observed_generation,
            conditions,
            stream_id: self.stream_id,
            group_id: self.group_id,
            replicas: self.replicas,
            ready_replicas: self.ready_replicas,
            selector: self.selector.clone(),
            retry_policy: self.retry_policy.clone(),
            ..Self::default()
        }
    }
}

/// Writes what the steps found.
pub(super) async fn write(
    context: &Context,
    resource: &ConsumerGroup,
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

pub(super) fn compute(
    resource: &ConsumerGroup,
    current: &ConsumerGroupStatus,
    facts: &Facts,
    problem: Option<&Problem>,
) -> ConsumerGroupStatus {
    let workers = facts.workers.as_ref();
    let milestones = [
        Milestone {
            kind: DATABASE_REACHABLE,
            reason: "Connected",
            message: "the database answers".into(),
        },
        Milestone {
            kind: PROVISIONED,
            reason: "Provisioned",
            message: "Postgres knows the group".into(),
        },
        Milestone {
            kind: WORKERS_AVAILABLE,
            reason: if workers.is_some_and(|workers| workers.wanted == 0) {
                "NoneWanted"
            } else {
                "AllReady"
            },
            message: workers.map(WorkersFound::describe).unwrap_or_default(),
        },
    ];
    let wanted = conditions(&milestones, problem);
    ConsumerGroupStatus {
        observed_generation: resource.metadata.generation,
        conditions: written(&wanted, &current.conditions, resource.metadata.generation),
        stream_id: facts.provisioned.map(|(stream, _)| stream.0).or(current.stream_id),
        group_id: facts.provisioned.map(|(_, group)| group.0).or(current.group_id),
        replicas: workers.map(|workers| workers.replicas).or(current.replicas),
        ready_replicas: workers.map(|workers| workers.ready).or(current.ready_replicas),
        selector: Some(desired::selector(resource)),
        retry_policy: facts
            .retry
            .as_ref()
            .map(retry_policy)
            .or_else(|| current.retry_policy.clone()),
        ..ConsumerGroupStatus::default()
    }
}

fn retry_policy(policy: &RetryPolicy) -> RetryPolicyStatus {
    RetryPolicyStatus {
        max_retries: policy.max_retries,
        initial_delay: policy.initial_delay.into(),
        max_delay: policy.max_delay.into(),
        factor: policy.factor,
        jitter: policy.jitter,
        schedule: policy.schedule(),
    }
}
