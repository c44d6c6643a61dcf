//! How the workers are.

use k8s_openapi::api::apps::v1::Deployment;

use super::desired;
use crate::api::ConsumerGroup;
use crate::api::conditions::WORKERS_AVAILABLE;
use crate::controllers::error::Problem;

/// What a Deployment tells of its pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WorkersFound {
    pub(super) wanted: i32,
    pub(super) replicas: i32,
    pub(super) ready: i32,
    /// Those with the newest settings, ready or not.
    updated: i32,
    /// Why Kubernetes makes no pods, where it says so.
    trouble: Option<String>,
}

/// Reads the Deployment. One whose controller has not seen the newest change says nothing yet.
pub(super) fn workers(group: &ConsumerGroup, deployment: &Deployment) -> WorkersFound {
    let status = deployment.status.clone().unwrap_or_default();
    let seen = status.observed_generation >= deployment.metadata.generation;
    // Of those that are ready, some may still be of the settings before; Kubernetes counts the new ones.
    let updated = if seen {
        status.updated_replicas.unwrap_or_default()
    } else {
        0
    };
    let trouble = status.conditions.iter().flatten().find_map(|condition| {
        let failing = match condition.type_.as_str() {
            "ReplicaFailure" => condition.status == "True",
            "Progressing" => condition.status == "False",
            _ => false,
        };
        failing.then(|| condition.message.clone()).flatten()
    });
    WorkersFound {
        wanted: desired::replicas(group),
        replicas: status.replicas.unwrap_or_default(),
        ready: status.ready_replicas.unwrap_or_default(),
        updated,
        trouble,
    }
}

impl WorkersFound {
    /// Whether as many run as were asked for.
    pub(super) fn judge(&self) -> Result<(), Problem> {
        if self.ready >= self.wanted && self.updated >= self.wanted && self.trouble.is_none() {
            return Ok(());
        }
        let trouble = self
            .trouble
            .as_ref()
            .map(|trouble| format!(": {trouble}"))
            .unwrap_or_default();
        Err(Problem::Reported {
            condition: WORKERS_AVAILABLE,
            reason: "WorkersNotReady",
            message: format!(
                "{} of {} workers are ready, {} with the newest settings{trouble}; look at their pods with kubectl get \
                 pods and kubectl logs",
                self.ready, self.wanted, self.updated
            ),
        })
    }

    /// For a condition that holds.
    pub(super) fn describe(&self) -> String {
        match self.wanted {
            0 => "no worker is asked for: the group is suspended or has no replicas".into(),
            1 => "the worker is ready".into(),
            wanted => format!("all {wanted} workers are ready"),
        }
    }
}
