//! From what a Stream says to what is asked of the database.

use crate::api::{Duration, Stream, StreamSpec};
use crate::controllers::context::take_over_from;
use crate::controllers::error::Problem;
use crate::database::ownership::Owner;
use crate::database::streams::StreamRequest;

/// What to ask of the database. Fails where the schema of the resource cannot tell that it makes
/// no sense.
pub(super) fn request(resource: &Stream, owner: Owner) -> Result<StreamRequest, Problem> {
    // By name, so that a new field cannot be forgotten here.
    let StreamSpec {
        database_ref: _,
        stream_name: _,
        partition_size,
        retention,
        retry: _,
        deletion_policy: _,
        adoption,
    } = &resource.spec;
    let ttl = retention
        .ttl
        .map(|ttl| seconds("spec.retention.ttl", ttl))
        .transpose()?;
    Ok(StreamRequest {
        name: resource.stream_name(),
        owner,
        adoption: *adoption,
        take_over_from: take_over_from(resource)?,
        partition_size: *partition_size,
        retention_ttl_seconds: ttl,
        drop_unconsumed: retention.drop_unconsumed,
        idempotency_key_ttl_seconds: seconds("spec.retention.idempotencyKeyTTL", retention.idempotency_key_ttl)?,
    })
}

fn seconds(field: &str, duration: Duration) -> Result<i64, Problem> {
    match i64::try_from(std::time::Duration::from(duration).as_secs()) {
        Ok(seconds) if seconds > 0 => Ok(seconds),
        _ => Err(Problem::invalid(format!(
            "{field} must be at least 1s, it is {duration}"
        ))),
    }
}
