//! ConsumerGroup: from a manifest to a row in Postgres and workers that deliver.

mod apply;
mod dereference;
mod desired;
mod handlers;
mod observe;
mod status;
#[cfg(test)]
mod tests;
mod validate;

use std::time::Duration;

use super::context::{Context, owner};
use super::error::Problem;
use super::reconcile::Managed;
use crate::api::{ConsumerGroup, DeletionPolicy};

impl Managed for ConsumerGroup {
    const KIND: &'static str = "ConsumerGroup";
    const RESYNC: Duration = Duration::from_secs(60);

    async fn reconcile(&self, context: &Context) -> Result<(), Problem> {
        let mut facts = status::Facts::default();
        let result = steps(self, context, &mut facts).await;
        if matches!(result, Err(Problem::Waiting(_))) {
            return result;
        }
        // Workers that are not ready yet are nothing to try again: the Deployment tells when they are.
        let waiting = facts.workers.as_ref().and_then(|workers| workers.judge().err());
        status::write(context, self, &facts, result.as_ref().err().or(waiting.as_ref())).await?;
        result
    }

    async fn clean_up(&self, context: &Context) -> Result<(), Problem> {
        // Workers first: they would go on claiming for a group that is gone.
        if !apply::remove_workers(context, self).await? {
            return Err(Problem::Waiting("the workers to stop"));
        }
        let Some((stream, database)) = dereference::database_for_clean_up(context, self).await? else {
            return Ok(());
        };
        let owner = owner(self, &context.cluster_id)?;
        match self.spec.deletion_policy {
            DeletionPolicy::Retain => database.release_group(&stream, &self.group_name(), &owner).await?,
            DeletionPolicy::Delete => database.drop_group(&stream, &self.group_name(), &owner).await?,
        }
        Ok(())
    }

    async fn report_clean_up(&self, context: &Context, problem: &Problem) -> Result<(), Problem> {
        if matches!(problem, Problem::Waiting(_)) {
            return Ok(());
        }
        status::write(context, self, &status::Facts::default(), Some(problem)).await
    }
}

async fn steps(resource: &ConsumerGroup, context: &Context, facts: &mut status::Facts) -> Result<(), Problem> {
    let dependencies = dereference::dependencies(context, resource).await?;
    let valid = validate::validate(resource, &dependencies.stream, owner(resource, &context.cluster_id)?)?;
    facts.retry = Some(valid.retry);
    let stream = dependencies.stream_id;
    let group = dependencies.database.provision_group(&valid.request(stream)).await?;
    facts.provisioned = Some((stream, group));
    let workers = desired::workers(desired::Plan {
        group: resource,
        stream: &dependencies.stream,
        database: &dependencies.database_resource,
        valid: &valid,
        image: &context.image,
    });
    let deployment = apply::workers(context, resource, workers).await?;
    facts.workers = Some(observe::workers(resource, &deployment));
    Ok(())
}
