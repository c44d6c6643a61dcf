//! How far a reconcile came, as conditions, and the status that they are written in.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::apply;
use super::context::Context;
use super::error::Problem;
use crate::api::conditions::{READY, Wanted};

/// One condition of a kind, in the order in which the steps prove them, with what is said of it
/// when it holds.
pub(crate) struct Milestone {
    pub(crate) kind: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// Ready and the milestones: those before the problem hold, the one that it names does not, and
/// of those after it nothing is known. Without a problem all hold.
pub(crate) fn conditions(milestones: &[Milestone], problem: Option<&Problem>) -> Vec<Wanted> {
    let Some(problem) = problem else {
        let ready = Wanted::holds(READY, "Ready", "all is as asked for");
        let hold = milestones
            .iter()
            .map(|it| Wanted::holds(it.kind, it.reason, it.message.clone()));
        return std::iter::once(ready).chain(hold).collect();
    };
    let (failing, reason, message) = match problem {
        Problem::Reported {
            condition,
            reason,
            message,
        } => (*condition, *reason, message.clone()),
        other => (READY, other.reason(), other.to_string()),
    };
    let mut wanted = vec![Wanted::fails(READY, reason, message.clone())];
    let mut reached = failing != READY;
    for milestone in milestones {
        if milestone.kind == failing {
            reached = false;
            wanted.push(Wanted::fails(failing, reason, message.clone()));
        } else if reached {
            wanted.push(Wanted::holds(
                milestone.kind,
                milestone.reason,
                milestone.message.clone(),
            ));
        } else {
            wanted.push(Wanted::unknown(
                milestone.kind,
                reason,
                "not looked at: see the condition Ready",
            ));
        }
    }
    wanted
}

/// The conditions to write over those of `current`.
pub(crate) fn written(wanted: &[Wanted], current: &[Condition], generation: Option<i64>) -> Vec<Condition> {
    let now = Timestamp::now();
    wanted
        .iter()
        .map(|wanted| wanted.over(current, generation, now))
        .collect()
}

/// A status of which a controller writes a part, and `statistics` the rest.
pub(crate) trait Shared: Serialize + PartialEq {
    fn conditions(&self) -> &[Condition];

    /// The part that the controller writes; of the conditions those that are given.
    fn own_part(&self, conditions: Vec<Condition>) -> Self;
}

/// Writes the controller's part of a status where it differs from what is there, and reports an
/// Event where Ready has changed.
pub(crate) async fn write<K, S>(context: &Context, resource: &K, current: &S, status: &S) -> Result<(), Problem>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
    S: Shared,
{
    if let Some(ready) = ready_changed(current.conditions(), status.conditions()) {
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
    if is_written(current, status) {
        Ok(())
    } else {
        apply::status(&context.client, resource, status).await
    }
}

/// Whether `current` says all that `status` does.
pub(crate) fn is_written<S: Shared>(current: &S, status: &S) -> bool {
    let own = status.conditions().iter().filter_map(|condition| {
        current
            .conditions()
            .iter()
            .find(|current| current.type_ == condition.type_)
            .cloned()
    });
    *status == current.own_part(own.collect())
}

/// What Ready said before, and says now, where that differs.
fn ready_changed<'a>(current: &[Condition], written: &'a [Condition]) -> Option<&'a Condition> {
    let ready = |conditions: &'a [Condition]| conditions.iter().find(|condition| condition.type_ == READY);
    let now = ready(written)?;
    let before = current.iter().find(|condition| condition.type_ == READY);
    (before.map(|before| (&before.status, &before.reason)) != Some((&now.status, &now.reason))).then_some(now)
}
