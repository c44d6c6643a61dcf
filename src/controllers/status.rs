//! How far a reconcile came, as conditions.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;

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

/// The conditions of `current` that a reconcile of this kind writes.
pub(crate) fn own(current: &[Condition], wanted: &[Wanted]) -> Vec<Condition> {
    wanted
        .iter()
        .filter_map(|wanted| current.iter().find(|condition| condition.type_ == wanted.kind))
        .cloned()
        .collect()
}

/// What Ready said before, and says now, where that differs.
pub(crate) fn ready_changed<'a>(current: &[Condition], written: &'a [Condition]) -> Option<&'a Condition> {
    let ready = |conditions: &'a [Condition]| conditions.iter().find(|condition| condition.type_ == READY);
    let now = ready(written)?;
    let before = current.iter().find(|condition| condition.type_ == READY);
    (before.map(|before| (&before.status, &before.reason)) != Some((&now.status, &now.reason))).then_some(now)
}
