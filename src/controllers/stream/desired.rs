//! The retention job of a Stream. Pure.

use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, JobSpec, JobTemplateSpec};
use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};

use crate::api::{Stream, StreamDatabase};
use crate::controllers::context::Image;
use crate::controllers::names::{child_name, hash};
use crate::controllers::pods;

/// Names of CronJobs are bounded, since those of their Jobs and pods are made from them.
const CRON_JOB_NAME: usize = 52;
const MINUTES_PER_HOUR: u64 = 60;
/// The longest that one run may take; what it does not reach, the next one does.
const DEADLINE_SECONDS: i64 = 3000;

/// The name of the job.
pub(super) fn retention_job_name(stream: &Stream) -> String {
    child_name(&stream.name_any(), "retention", CRON_JOB_NAME)
}

/// One job for each stream, once an hour unless the resource says otherwise.
pub(super) fn retention_job(stream: &Stream, database: &StreamDatabase, image: &Image) -> CronJob {
    let spec = &database.spec;
    let secret = spec.retention_secret_ref.as_ref().unwrap_or(&spec.secret_ref);
    let access = pods::database_access(database, &secret.name);
    let mut arguments = vec!["retention".into(), "run".into()];
    arguments.extend(access.arguments);
    arguments.push(format!("--stream={}", stream.stream_name()));
    arguments.push(format!("--owner-uid={}", stream.uid().unwrap_or_default()));
    let labels = pods::labels(stream, "retention");
    let pod = PodSpec {
        restart_policy: Some("Never".into()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        security_context: Some(pods::restricted_pod()),
        containers: vec![pods::own_container("retention", image, arguments, access.mounts)],
        volumes: Some(access.volumes),
        ..PodSpec::default()
    };
    CronJob {
        metadata: ObjectMeta {
            name: Some(retention_job_name(stream)),
            namespace: stream.namespace(),
            labels: Some(labels.clone()),
            owner_references: stream.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(CronJobSpec {
            schedule: stream.spec.retention.schedule.clone().unwrap_or_else(|| hourly(stream)),
            time_zone: Some("Etc/UTC".into()),
            concurrency_policy: Some("Forbid".into()),
            starting_deadline_seconds: Some(600),
            successful_jobs_history_limit: Some(1),
            failed_jobs_history_limit: Some(1),
            job_template: JobTemplateSpec {
                metadata: None,
                spec: Some(JobSpec {
                    active_deadline_seconds: Some(DEADLINE_SECONDS),
                    backoff_limit: Some(2),
                    template: PodTemplateSpec {
                        metadata: Some(ObjectMeta {
                            labels: Some(labels),
                            ..ObjectMeta::default()
                        }),
                        spec: Some(pod),
                    },
                    ..JobSpec::default()
                }),
            },
            ..CronJobSpec::default()
        }),
        status: None,
    }
}

/// Once an hour, at a minute that depends on the stream alone, so that many streams do not all run
/// at once.
fn hourly(stream: &Stream) -> String {
    let name = format!("{}/{}", stream.namespace().unwrap_or_default(), stream.name_any());
    format!("{} * * * *", hash(&name) % MINUTES_PER_HOUR)
}
