//! Applies the retention job.

use k8s_openapi::api::batch::v1::CronJob;

use crate::api::Stream;
use crate::controllers::apply;
use crate::controllers::context::Context;
use crate::controllers::error::Problem;

pub(super) async fn retention_job(context: &Context, stream: &Stream, wanted: &CronJob) -> Result<(), Problem> {
    apply::child(&context.client, stream, wanted).await?;
    Ok(())
}
