//! The worker's way to the database, and what is known of its state.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::database::login::Login;
use crate::database::{Database, DatabaseError};

use super::metrics::Metrics;

/// How the connections of workers show in `pg_stat_activity`.
pub(crate) const APPLICATION: &str = "sqlstreams-worker";

/// What the worker was doing when a call failed or was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Activity {
    Register,
    Claim,
    Settle,
    Renew,
    TakeOver,
    Upkeep,
}

/// The way to the database. Logs each change of its state once.
#[derive(Debug)]
pub struct Link {
    pub(super) database: Database,
    login: Option<Login>,
    metrics: Metrics,
    ready: AtomicBool,
    troubles: Mutex<BTreeMap<Activity, String>>,
    troubled: AtomicBool,
}

impl Link {
    /// A way that uses `database`; new connections of it log in with `login`, read anew after a
    /// refusal.
    #[must_use]
    pub fn new(database: Database, login: Option<Login>, metrics: Metrics) -> Self {
        Self {
            database,
            login,
            metrics,
            ready: AtomicBool::new(false),
            troubles: Mutex::new(BTreeMap::new()),
            troubled: AtomicBool::new(false),
        }
    }

    /// Whether the worker holds a lease and the database answers.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed) && !self.troubled.load(Ordering::Relaxed)
    }

    pub(super) fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    /// A call was answered.
    pub(super) fn answered(&self, activity: Activity) {
        if !self.troubled.load(Ordering::Relaxed) {
            return;
        }
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        if troubles.remove(&activity).is_some() && troubles.is_empty() {
            self.troubled.store(false, Ordering::Relaxed);
            tracing::info!("the database answers again");
        }
    }

    /// A call failed.
    pub(super) fn failed(&self, activity: Activity, fault: &DatabaseError) {
        self.metrics.database_failed(fault.reason());
        match fault {
            // All in a day's work.
            DatabaseError::Locked | DatabaseError::Retry(_) | DatabaseError::Fenced => return,
            DatabaseError::Authentication(_) => self.log_in_anew(),
            _ => {}
        }
        self.trouble(activity, fault.to_string());
    }

    /// Something keeps the worker from working.
    pub(super) fn trouble(&self, activity: Activity, reason: String) {
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        self.troubled.store(true, Ordering::Relaxed);
        // What stops all activities is told once.
        if !troubles.values().any(|known| *known == reason) {
            tracing::warn!(%reason, "the worker cannot go on, and tries again");
        }
        troubles.insert(activity, reason);
    }

    /// All that was known of troubles belongs to a lease that has ended.
    pub(super) fn forget_troubles(&self) {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.troubled.store(false, Ordering::Relaxed);
    }

    fn log_in_anew(&self) {
        if let Some(login) = &self.login {
            match login.read() {
                Ok(credentials) => credentials.named(APPLICATION).renew(&self.database.pool),
                Err(error) => tracing::warn!(reason = %error, "the login cannot be read"),
            }
        }
    }
}
