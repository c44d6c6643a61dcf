//! The worker's way to the database, and what is known of its state.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::database::connection::{Credentials, CredentialsError, TlsMode};
use crate::database::{Database, DatabaseError};

use super::metrics::Metrics;

/// Where the login comes from.
#[derive(Clone, Debug)]
pub enum LoginSource {
    /// A mounted Secret; read again when a login is refused, since it may have been rotated.
    Folder(PathBuf),
    /// A URL.
    Url(SecretUrl),
}

/// A URL that may hold a password.
#[derive(Clone)]
pub struct SecretUrl(pub String);

/// Never shows it.
impl std::fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretUrl")
    }
}

/// How to log in to the database.
#[derive(Clone, Debug)]
pub struct Login {
    /// Where the login comes from.
    pub source: LoginSource,
    /// How the connection is secured; by default as strictly as the host allows.
    pub tls_mode: Option<TlsMode>,
    /// Certificate of the authority to trust, a file in PEM.
    pub tls_authority: Option<PathBuf>,
}

impl Login {
    /// Reads the login as it is now.
    ///
    /// # Errors
    /// When there is none, or a file cannot be read.
    pub fn read(&self) -> Result<Credentials, CredentialsError> {
        let credentials = match &self.source {
            LoginSource::Folder(folder) => Credentials::from_folder(folder)?,
            LoginSource::Url(SecretUrl(url)) => Credentials::from_url(url)?,
        };
        let authority = self
            .tls_authority
            .as_deref()
            .map(std::fs::read)
            .transpose()
            .map_err(|error| CredentialsError::Unreadable(error.to_string()))?;
        let mode = self.tls_mode.unwrap_or(if credentials.is_local() {
            TlsMode::Disable
        } else {
            TlsMode::VerifyFull
        });
        Ok(credentials.tls(mode, authority).named("sqlstreams worker"))
    }
}

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
                Ok(credentials) => credentials.renew(&self.database.pool),
                Err(error) => tracing::warn!(reason = %error, "the login cannot be read"),
            }
        }
    }
}
