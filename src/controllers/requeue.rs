//! When a resource is looked at again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kube::runtime::controller::Action;

use super::error::Problem;

const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(30);
/// What is being waited for takes a moment only.
const WAIT: Duration = Duration::from_millis(500);

/// How often each resource has failed in a row, by UID.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<HashMap<String, u32>>);

impl Failures {
    /// After success: only drift is looked for, at times that are spread.
    pub(crate) fn succeeded(&self, uid: &str, resync: Duration) -> Action {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
        Action::requeue(resync + jitter(resync / 4))
    }

    /// After a failure: soon at first, more rarely later, so that what does not come back costs
    /// little, and spread, so that what comes back is not met by all at once.
    pub(crate) fn failed(&self, uid: &str, problem: &Problem) -> Action {
        if matches!(problem, Problem::Waiting(_)) {
            return Action::requeue(WAIT);
        }
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = failures.entry(uid.to_owned()).or_default();
        let delay = FIRST_RETRY.saturating_mul(1 << (*failed).min(10)).min(LAST_RETRY);
        *failed = failed.saturating_add(1);
        Action::requeue(delay + jitter(delay / 4))
    }
}

fn jitter(bound: Duration) -> Duration {
    bound.mul_f64(rand::random::<f64>())
}
