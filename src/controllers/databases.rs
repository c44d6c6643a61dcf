//! The databases that the operator knows, each with one pool however many resources use it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::{CancellationToken, DropGuard};

use super::error::Problem;
use crate::api::conditions::DATABASE_REACHABLE;
use crate::database::Database;

/// A StreamDatabase by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DatabaseKey {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// A database that answered when it was looked at last.
#[derive(Debug)]
pub(crate) struct Live {
    /// What the pool was made from; a change of it asks for a new pool.
    pub(crate) revision: String,
    pub(crate) database: Database,
    /// Ends what runs alongside once nobody uses this any more.
    _alongside: DropGuard,
}

impl Live {
    /// With a token that is cancelled once this is dropped.
    pub(crate) fn new(revision: String, database: Database) -> (Self, CancellationToken) {
        let token = CancellationToken::new();
        (
            Self {
                revision,
                database,
                _alongside: token.clone().drop_guard(),
            },
            token,
        )
    }
}

#[derive(Clone, Debug)]
struct Failure {
    reason: &'static str,
    message: String,
}

#[derive(Debug, Default)]
struct Entry {
    live: Option<Arc<Live>>,
    failure: Option<Failure>,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Databases(Mutex<HashMap<DatabaseKey, Entry>>);

impl Databases {
    fn entries(&self) -> MutexGuard<'_, HashMap<DatabaseKey, Entry>> {
        // No code that holds the lock can leave an entry half written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The database, whatever was found of it lately: for work that must not wait, such as
    /// cleaning up.
    pub(crate) fn live(&self, key: &DatabaseKey) -> Option<Arc<Live>> {
        self.entries().get(key).and_then(|entry| entry.live.clone())
    }

    /// The database if it can be worked with.
    pub(crate) fn usable(&self, key: &DatabaseKey) -> Result<Arc<Live>, Problem> {
        match self.entries().get(key) {
            Some(Entry {
                failure: Some(failure), ..
            }) => Err(Problem::Reported {
                condition: DATABASE_REACHABLE,
                reason: failure.reason,
                message: format!("StreamDatabase {}: {}", key.name, failure.message),
            }),
            Some(Entry { live: Some(live), .. }) => Ok(Arc::clone(live)),
            _ => Err(Problem::Waiting("the first look at the database")),
        }
    }

    pub(crate) fn succeed(&self, key: DatabaseKey, live: Arc<Live>) {
        self.entries().insert(
            key,
            Entry {
                live: Some(live),
                failure: None,
            },
        );
    }

    /// Records why the database cannot be worked with. Its pool is kept.
    pub(crate) fn fail(&self, key: DatabaseKey, problem: &Problem) {
        if let Problem::Reported { reason, message, .. } = problem {
            self.entries().entry(key).or_default().failure = Some(Failure {
                reason,
                message: message.clone(),
            });
        }
    }

    pub(crate) fn forget(&self, key: &DatabaseKey) {
        self.entries().remove(key);
    }
}
