//! Applies and removes the workers.

use k8s_openapi::api::apps::v1::Deployment;

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

/// Removes the workers, and tells whether they are gone.
pub(super) async fn remove_workers(context: &Context, group: &ConsumerGroup) -> Result<bool, Problem> {
    apply::remove::<Deployment, _>(&context.client, group, &desired::name(group)).await
}
