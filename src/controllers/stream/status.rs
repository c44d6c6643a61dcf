//! The status of a Stream, but for its numbers, which `statistics` writes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::api::conditions::{DATABASE_REACHABLE, PROVISIONED, RETENTION_HEALTHY, Wanted};
use crate::api::{Stream, StreamStatus};
use crate::controllers::context::Context;
use crate::controllers::error::Problem;
use crate::controllers::status::{self, Milestone, Shared, conditions, written};
use crate::database::retention::{Behind, Report};
use crate::database::streams::ProvisionedStream;

/// What the steps found, as far as they came.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// Schema and stream.
    pub(super) provisioned: Option<(String, ProvisionedStream)>,
}

impl Shared for StreamStatus {
    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    fn own_part(&self, conditions: Vec<Condition>) -> Self {
        Self {
            observed_generation: self.observed_generation,
            conditions,
            stream_id: self.stream_id,
            message_log: self.message_log.clone(),
            ..Self::default()
        }
    }
}

/// Writes what the steps found.
pub(super) async fn write(
    context: &Context,
    resource: &Stream,
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

fn compute(resource: &Stream, current: &StreamStatus, facts: &Facts, problem: Option<&Problem>) -> StreamStatus {
    let milestones = [
        Milestone {
            kind: DATABASE_REACHABLE,
            reason: "Connected",
            message: "the database answers".into(),
        },
        Milestone {
            kind: PROVISIONED,
            reason: "Provisioned",
            message: "the tables are as asked for".into(),
        },
    ];
    let mut wanted = conditions(&milestones, problem);
    let (stream_id, message_log) = match &facts.provisioned {
        Some((schema, stream)) => {
            wanted.push(retention(stream.retention_report.as_ref()));
            (Some(stream.id.0), Some(format!("{schema}.message_log_{}", stream.id)))
        }
        None => (current.stream_id, current.message_log.clone()),
    };
    let mut conditions = written(&wanted, &current.conditions, resource.metadata.generation);
    // What the last run of the job reported stands, as long as nothing newer is known.
    let reported = |it: &&Condition| it.type_ == RETENTION_HEALTHY && facts.provisioned.is_none();
    conditions.extend(current.conditions.iter().find(reported).cloned());
    StreamStatus {
        observed_generation: resource.metadata.generation,
        conditions,
        stream_id,
        message_log,
        ..StreamStatus::default()
    }
}

/// What the last run of the retention job reported.
fn retention(report: Option<&Report>) -> Wanted {
    let Some(report) = report else {
        return Wanted::unknown(RETENTION_HEALTHY, "NotRunYet", "the retention job has not run yet");
    };
    if !report.behind.is_empty() {
        let describe = |it: &Behind| format!("group {} {} (since {:.0})", it.group, it.reason, it.since);
        let behind: Vec<String> = report.behind.iter().map(describe).collect();
        Wanted::fails(
            RETENTION_HEALTHY,
            "Blocked",
            format!(
                "messages past their time are kept: {}; let the group catch up, delete it with deletionPolicy Delete, or set retention.dropUnconsumed",
                behind.join("; ")
            ),
        )
    } else if report.locked_out {
        Wanted::fails(
            RETENTION_HEALTHY,
            "LockedOut",
            "messages past their time are kept: a transaction that publishes, or a dump, held the log for as long as the \
             job may wait; the next run tries again",
        )
    } else {
        Wanted::holds(RETENTION_HEALTHY, "UpToDate", "all that is past its time was dropped")
    }
}
