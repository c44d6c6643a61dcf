//! Applies and removes the workers.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::DeleteParams;

use super::desired::{self, Workers};
use crate::api::ConsumerGroup;
use crate::controllers::apply;
use crate::controllers::context::Context;
use crate::controllers::error::Problem;

/// Applies what runs for the group; returns the Deployment as it is then.
pub(super) async fn workers(context: &Context, group: &ConsumerGroup, workers: Workers) -> Result<Deployment, Problem> {
    if let Some(account) = &workers.service_account {
        apply::child(&context.client, group, account).await?;
    }
    apply::child(&context.client, group, &workers.deployment).await
}

/// Removes what runs for the group, and tells whether the pods are gone.
pub(super) async fn remove_workers(context: &Context, group: &ConsumerGroup) -> Result<bool, Problem> {
    let name = desired::name(group);
    apply::remove::<ServiceAccount, _>(&context.client, group, &name, &DeleteParams::background()).await?;
    apply::remove::<Deployment, _>(&context.client, group, &name, &DeleteParams::foreground()).await
}
