//! From what a ConsumerGroup says to what is asked of the database and of the workers. Pure.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::json;

use crate::api::{
    ConsumerGroup, ConsumerGroupSpec, Handler, Program, Retry, StartAt, StartFrom, Stream, WorkerSettings,
};
use crate::controllers::context::take_over_from;
use crate::controllers::error::Problem;
use crate::database::groups::{GroupRequest, StartPosition};
use crate::database::ownership::Owner;
use crate::database::{MessageId, StreamId};
use crate::delivery::handler::http::Target;
use crate::delivery::handler::http::addresses::AddressRules;
use crate::delivery::retry::RetryPolicy;

/// Retries where neither group nor stream says how many.
const RETRIES: u32 = 3;
/// The same for a URL, behind which is somebody else's system: 8 attempts in all.
const RETRIES_OF_URL: u32 = 7;
/// The worker's own port, in whose pod a handler's container runs.
pub(super) const WORKER_PORT: u16 = 8080;

/// How long a lease may last; see `sqlstreams worker --lease`.
const LEASES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);

/// A ConsumerGroup that makes sense.
#[derive(Clone, Debug)]
pub(super) struct Valid {
    pub(super) retry: RetryPolicy,
    group: GroupRequest,
}

impl Valid {
    /// What to ask of the database that holds this stream.
    pub(super) fn request(&self, stream: StreamId) -> GroupRequest {
        GroupRequest {
            stream,
            ..self.group.clone()
        }
    }
}

/// Fails where the schema of the resource cannot tell that it makes no sense.
pub(super) fn validate(resource: &ConsumerGroup, stream: &Stream, owner: Owner) -> Result<Valid, Problem> {
    let ConsumerGroupSpec {
        stream_ref: _,
        group_name: _,
        start_from,
        handler,
        replicas,
        concurrency,
        retry,
        worker,
        suspend,
        deletion_policy: _,
        adoption,
    } = &resource.spec;
    let retry = retry_policy(handler, retry, stream.spec.retry.as_ref())?;
    check_handler(handler, worker)?;
    let settings = json!({
        "replicas": replicas,
        "concurrency": concurrency,
        "suspend": suspend,
        "maxRetries": retry.max_retries,
    });
    Ok(Valid {
        group: GroupRequest {
            stream: StreamId(0),
            name: resource.group_name(),
            owner,
            adoption: *adoption,
            take_over_from: take_over_from(resource)?,
            start: start_position(start_from),
            settings,
        },
        retry,
    })
}

fn check_handler(handler: &Handler, worker: &WorkerSettings) -> Result<(), Problem> {
    if worker
        .lease
        .is_some_and(|lease| !LEASES.contains(&Duration::from(lease)))
    {
        return Err(Problem::invalid("spec.worker.lease must be from 1s to 1h"));
    }
    if let Some(url) = handler.http.as_ref().and_then(|http| http.url.as_ref()) {
        let target = url
            .parse()
            .map(|url| Target::Url(url, AddressRules { allow_private: false }));
        // Neither error shows the URL, which may hold a secret.
        let refused = match target {
            Ok(target) => target.check().map_err(|error| error.to_string()),
            Err(_) => Err("it is no URL".into()),
        };
        refused.map_err(|reason| Problem::invalid(format!("spec.handler.http.url: {reason}")))?;
    }
    let Handler {
        http: _,
        container,
        sdk,
        timeout: _,
    } = handler;
    if container
        .as_ref()
        .is_some_and(|container| container.port == WORKER_PORT)
    {
        return Err(Problem::invalid(format!(
            "spec.handler.container.port must not be {WORKER_PORT}, on which the worker in the same pod listens"
        )));
    }
    if let Some(container) = container {
        check_mounts("container", &container.program, worker)?;
    }
    if let Some(program) = sdk {
        check_mounts("sdk", program, worker)?;
        if let Some(variable) = program.env.iter().find(|variable| is_own(&variable.name)) {
            return Err(Problem::invalid(format!(
                "spec.handler.sdk.env sets {}, which the operator sets itself from the fields of this resource",
                variable.name
            )));
        }
    }
    Ok(())
}

/// Whether the operator tells a worker something by this variable; what is logged is not its affair.
fn is_own(variable: &str) -> bool {
    variable.starts_with("SQLSTREAMS_") && !variable.starts_with("SQLSTREAMS_LOG")
}

fn check_mounts(kind: &str, program: &Program, worker: &WorkerSettings) -> Result<(), Problem> {
    match program
        .volume_mounts
        .iter()
        .find(|mount| !worker.volumes.iter().any(|volume| volume.name == mount.name))
    {
        Some(mount) => Err(Problem::invalid(format!(
            "spec.handler.{kind}.volumeMounts names the volume {}, which is not in spec.worker.volumes",
            mount.name
        ))),
        None => Ok(()),
    }
}

fn start_position(start: &StartFrom) -> StartPosition {
    match start {
        StartFrom {
            message_id: Some(id), ..
        } => StartPosition::Message(MessageId(*id)),
        StartFrom { time: Some(time), .. } => StartPosition::Time(time.0.as_microsecond()),
        StartFrom {
            at: Some(StartAt::Latest),
            ..
        } => StartPosition::Latest,
        StartFrom {
            at: Some(StartAt::Beginning) | None,
            ..
        } => StartPosition::Beginning,
    }
}

/// What the group says, else what its stream says, else the default of the handler.
fn retry_policy(handler: &Handler, group: &Retry, stream: Option<&Retry>) -> Result<RetryPolicy, Problem> {
    let to_url = handler.http.as_ref().is_some_and(|http| http.url.is_some());
    let default = RetryPolicy::default();
    let of = |duration: crate::api::Duration| Duration::from(duration);
    macro_rules! said {
        ($field:ident) => {
            group.$field.or(stream.and_then(|stream| stream.$field))
        };
    }
    let policy = RetryPolicy {
        max_retries: said!(max_retries).unwrap_or(if to_url { RETRIES_OF_URL } else { RETRIES }),
        initial_delay: said!(initial_delay).map_or(default.initial_delay, of),
        max_delay: said!(max_delay).map_or(default.max_delay, of),
        factor: said!(factor).unwrap_or(default.factor),
        jitter: said!(jitter).unwrap_or(default.jitter),
    };
    if policy.initial_delay > policy.max_delay {
        return Err(Problem::invalid(format!(
            "retry.initialDelay ({}) must not be longer than retry.maxDelay ({})",
            crate::api::Duration::from(policy.initial_delay),
            crate::api::Duration::from(policy.max_delay)
        )));
    }
    Ok(policy)
}
