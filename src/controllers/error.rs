//! What keeps a resource from being as it is asked to be.

use thiserror::Error;

use crate::api::conditions::{DATABASE_REACHABLE, PROVISIONED, READY};
use crate::database::DatabaseError;
use crate::database::streams::ProvisionError;

/// Why a reconcile ended early.
#[derive(Debug, Error)]
pub(crate) enum Problem {
    /// Something that a person can read in the status and act on.
    #[error("{reason}: {message}")]
    Reported {
        /// The condition that does not hold because of it.
        condition: &'static str,
        /// One stable word, for the condition, an Event and a metric label.
        reason: &'static str,
        /// What is wrong and what to do. Never a secret or a message's content.
        message: String,
    },
    /// Something this needs is still being looked at; the status is left as it is.
    #[error("waiting for {0}")]
    Waiting(&'static str),
    /// The API server refused or did not answer.
    #[error("the Kubernetes API: {}", describe(.0))]
    Kubernetes(#[from] kube::Error),
    /// The object itself cannot be understood.
    #[error("the resource cannot be read: {0}")]
    Undecodable(String),
    /// The time for one reconcile was over.
    #[error("the reconcile took too long")]
    TimedOut,
}

impl Problem {
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::Reported {
            condition: READY,
            reason: "InvalidSpec",
            message: message.into(),
        }
    }

    /// One word for logs and metrics.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Reported { reason, .. } => reason,
            Self::Waiting(_) => "Waiting",
            Self::Kubernetes(kube::Error::Api(status)) if status.code == 403 => "KubernetesForbidden",
            // It refused what was made from the resource: a cron schedule, say, or a pod's settings.
            Self::Kubernetes(kube::Error::Api(status)) if status.code == 422 => "InvalidSpec",
            Self::Kubernetes(_) => "KubernetesError",
            Self::Undecodable(_) => "Undecodable",
            Self::TimedOut => "ReconcileTimedOut",
        }
    }
}

/// The API server's own words where there are any: it names fields, never values of Secrets.
fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

impl From<DatabaseError> for Problem {
    fn from(error: DatabaseError) -> Self {
        let condition = if error.is_connection() {
            DATABASE_REACHABLE
        } else {
            PROVISIONED
        };
        Self::Reported {
            condition,
            reason: error.reason(),
            message: error.to_string(),
        }
    }
}

impl From<ProvisionError> for Problem {
    fn from(error: ProvisionError) -> Self {
        let reason = match error {
            ProvisionError::Database(error) => return error.into(),
            ProvisionError::NotOwned(_) => "Conflict",
            ProvisionError::PartitionSize { .. } => "PartitionSizeDiffers",
            ProvisionError::PublishersOpen => "PublishersOpen",
        };
        Self::Reported {
            condition: PROVISIONED,
            reason,
            message: error.to_string(),
        }
    }
}
