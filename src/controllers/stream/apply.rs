//! Applies and removes the retention job.

use k8s_openapi::api::batch::v1::CronJob;
use kube::api::DeleteParams;

use super::desired;
use crate::api::Stream;
use crate::controllers::apply;
use crate::controllers::context::Context;
use crate::controllers::error::Problem;

pub(super) async fn retention_job(context: &Context, stream: &Stream, wanted: &CronJob) -> Result<(), Problem> {
    apply::child(&context.client, stream, wanted).await?;
    Ok(())
}

/// Removes the job, with what it runs.
pub(super) async fn remove_retention_job(context: &Context, stream: &Stream) -> Result<(), Problem> {
    let name = desired::retention_job_name(stream);
    apply::remove::<CronJob, _>(&context.client, stream, &name, &DeleteParams::background()).await?;
    Ok(())
}
