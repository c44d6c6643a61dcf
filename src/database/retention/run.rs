//! One run of the job.

use std::time::Duration;

use rand::RngExt as _;
use tokio::time::Instant;
use tracing::{info, warn};
use uuid::Uuid;

use super::super::{Database, DatabaseError, partitions};
use super::{Attempt, Calls, ExpiredPartition, Report};

/// The pause between two tries for a lock is drawn between these. A try holds producers off for
/// at most 30 ms.
const PAUSE_MILLIS: std::ops::Range<u64> = 150..850;
/// Rows of each table that one transaction removes.
const SWEEP_ROWS: i64 = 1000;

/// What a run is asked to do.
#[derive(Clone, Debug)]
pub struct Request {
    /// Name of the stream.
    pub stream: String,
    /// UID of the resource that owns it; nothing is done where another one does.
    pub owner: Uuid,
    /// How long to try for the locks of one step.
    pub patience: Duration,
}

/// Drops what is expired and what every group has finished, removes what belonged to it, and
/// stores a report of that. A run that finds groups or open transactions in the way has succeeded:
/// the report says so.
///
/// # Errors
/// [`DatabaseError::NotOwned`] where the stream is not the owner's, or whatever keeps the database
/// from answering.
pub async fn run(database: &Database, request: &Request) -> Result<Report, DatabaseError> {
    let calls = Calls {
        database,
        owner: request.owner,
    };
    let stream = calls.stream(&request.stream).await?;
    let mut report = Report::new(stream.at);
    partitions::ensure(database, stream.id, 0).await?;
    match patiently(request.patience, || calls.close_current(stream.id)).await? {
        Some(true) => info!(stream = request.stream, "the stream goes on in a new partition"),
        Some(false) => {}
        None => report.locked_out = true,
    }
    loop {
        match patiently(request.patience, || calls.drop_oldest(stream.id)).await? {
            Some(Attempt::Dropped(partition)) => {
                info!(
                    stream = request.stream,
                    partition = partition.name,
                    low = partition.low,
                    high = partition.high,
                    size_bytes = partition.size_bytes,
                    "dropped a partition"
                );
                report.dropped(partition);
            }
            Some(Attempt::Blocked(blockers)) => {
                report.block(blockers, stream.report.as_ref());
                break;
            }
            Some(Attempt::NothingExpired) => break,
            None => {
                report.locked_out = true;
                break;
            }
        }
    }
    loop {
        let rows = calls.sweep(stream.id, SWEEP_ROWS).await?;
        report.swept += rows;
        if rows == 0 {
            break;
        }
    }
    partitions::ensure(database, stream.id, 0).await?;
    calls.store(stream.id, &report).await?;
    tell(&request.stream, &report);
    Ok(report)
}

/// What [`run`] would drop, and who is in its way. Changes nothing and locks nothing out.
///
/// # Errors
/// As [`run`].
pub async fn preview(database: &Database, request: &Request) -> Result<Vec<ExpiredPartition>, DatabaseError> {
    let calls = Calls {
        database,
        owner: request.owner,
    };
    let stream = calls.stream(&request.stream).await?;
    calls.expired(stream.id, i64::MAX).await
}

/// Tries until there is no lock in the way; `None` once patience is at its end.
async fn patiently<T, F: Future<Output = Result<T, DatabaseError>>>(
    patience: Duration,
    mut step: impl FnMut() -> F,
) -> Result<Option<T>, DatabaseError> {
    let began = Instant::now();
    loop {
        match step().await {
            Ok(done) => return Ok(Some(done)),
            Err(DatabaseError::Locked | DatabaseError::Retry(_)) if began.elapsed() < patience => {
                let pause = rand::rng().random_range(PAUSE_MILLIS);
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
            Err(DatabaseError::Locked | DatabaseError::Retry(_)) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

fn tell(stream: &str, report: &Report) {
    for behind in &report.behind {
        warn!(
            stream,
            group = behind.group,
            reason = behind.reason,
            since = %behind.since,
            "a group keeps expired messages from being dropped"
        );
    }
    if report.locked_out {
        warn!(
            stream,
            "an open transaction that writes to the stream, or a dump, keeps expired messages from being dropped; the next run tries again"
        );
    }
    info!(
        stream,
        dropped = report.dropped.len(),
        behind = report.behind.len(),
        swept = report.swept,
        "retention has run"
    );
}
