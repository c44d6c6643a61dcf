//! Stream: from a manifest to tables, partitions and a retention job.

mod apply;
mod dereference;
mod desired;
mod status;
mod validate;

use std::time::Duration;

use super::context::{Context, owner};
use super::error::Problem;
use super::reconcile::Managed;
use crate::api::{DeletionPolicy, Stream};

pub(crate) use dereference::{database_for_clean_up, key as database_key};

impl Managed for Stream {
    const KIND: &'static str = "Stream";
    const RESYNC: Duration = Duration::from_secs(60);

    async fn reconcile(&self, context: &Context) -> Result<(), Problem> {
        let mut facts = status::Facts::default();
        let result = steps(self, context, &mut facts).await;
        if matches!(result, Err(Problem::Waiting(_))) {
            return result;
        }
        status::write(context, self, &facts, result.as_ref().err()).await?;
        result
    }

    async fn clean_up(&self, context: &Context) -> Result<(), Problem> {
        let users = dereference::users(context, self).await?;
        if !users.is_empty() {
            return Err(Problem::Reported {
                condition: crate::api::conditions::READY,
                reason: "InUse",
                message: format!("waits for the ConsumerGroups that read it: {}", users.join(", ")),
            });
        }
        apply::remove_retention_job(context, self).await?;
        let Some(database) = database_for_clean_up(context, self).await? else {
            // No database ever answered for it, so there is nothing to clean up.
            return Ok(());
        };
        let owner = owner(self, &context.cluster_id)?;
        match self.spec.deletion_policy {
            DeletionPolicy::Retain => database.release_stream(&self.stream_name(), &owner).await?,
            DeletionPolicy::Delete => database.drop_stream(&self.stream_name(), &owner).await?,
        }
        Ok(())
    }

    async fn report_clean_up(&self, context: &Context, problem: &Problem) -> Result<(), Problem> {
        status::write(context, self, &status::Facts::default(), Some(problem)).await
    }
}

async fn steps(resource: &Stream, context: &Context, facts: &mut status::Facts) -> Result<(), Problem> {
    let dependencies = dereference::dependencies(context, resource).await?;
    let request = validate::request(resource, owner(resource, &context.cluster_id)?)?;
    let stream = dependencies.database.provision_stream(&request).await?;
    facts.provisioned = Some((dependencies.database.schema.name().to_owned(), stream));
    let job = desired::retention_job(resource, &dependencies.resource, &context.image);
    apply::retention_job(context, resource, &job).await
}
