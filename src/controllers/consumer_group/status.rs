//! The status of a ConsumerGroup, but for its numbers, which `statistics` writes.

use super::desired;
use super::observe::WorkersFound;
use crate::api::conditions::{DATABASE_REACHABLE, PROVISIONED, WORKERS_AVAILABLE};
use crate::api::{ConsumerGroup, ConsumerGroupStatus, RetryPolicyStatus};
use crate::controllers::apply;
use crate::controllers::context::Context;
use crate::controllers::error::Problem;
use crate::controllers::status::{Milestone, conditions, own, ready_changed, written};
use crate::database::{GroupId, StreamId};
use crate::delivery::retry::RetryPolicy;

/// What the steps found, as far as they came.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) retry: Option<RetryPolicy>,
    pub(super) provisioned: Option<(StreamId, GroupId)>,
    pub(super) workers: Option<WorkersFound>,
}

/// Writes the status where it differs.
pub(super) async fn write(
    context: &Context,
    resource: &ConsumerGroup,
    facts: &Facts,
    problem: Option<&Problem>,
) -> Result<(), Problem> {
    let current = resource.status.clone().unwrap_or_default();
    let status = compute(resource, &current, facts, problem);
    if let Some(ready) = ready_changed(&current.conditions, &status.conditions) {
        context
            .report(
                resource,
                ready.status != "True",
                &ready.reason,
                "Reconcile",
                ready.message.clone(),
            )
            .await;
    }
    if status == own_part(&current, &status) {
        return Ok(());
    }
    apply::status(&context.client, resource, &status).await
}

/// The part of a status that is written here.
pub(super) fn own_part(current: &ConsumerGroupStatus, written: &ConsumerGroupStatus) -> ConsumerGroupStatus {
    let conditions = written.conditions.iter().filter_map(|condition| {
        current
            .conditions
            .iter()
            .find(|current| current.type_ == condition.type_)
            .cloned()
    });
    ConsumerGroupStatus {
        observed_generation: current.observed_generation,
        conditions: conditions.collect(),
        stream_id: current.stream_id,
        group_id: current.group_id,
        replicas: current.replicas,
        ready_replicas: current.ready_replicas,
        selector: current.selector.clone(),
        retry_policy: current.retry_policy.clone(),
        ..ConsumerGroupStatus::default()
    }
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
        conditions: written(
            &wanted,
            &own(&current.conditions, &wanted),
            resource.metadata.generation,
        ),
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
