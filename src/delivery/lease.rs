//! Keeps the lease of an instance, and takes over from those that did not keep theirs.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::board::Board;
use super::link::{Activity, Link};
use super::lost::Lost;
use super::metrics::Metrics;
use crate::database::instances::Instance;

/// How often workers are looked for that have lost their lease.
const TAKE_OVER_EVERY: Duration = Duration::from_secs(1);

/// Renews the lease until it is lost. It counts as lost, by this machine's monotonic clock, when
/// it has not been renewed for as long as it lasts; a renewal counts from before it was asked for,
/// so that others never think it expired sooner than this worker does.
pub(super) async fn keep(instance: Instance, lease: Duration, registered: Instant, link: Arc<Link>) -> Option<Lost> {
    let mut renewed = registered;
    loop {
        let pause = renewed + lease / 5;
        let deadline = renewed + lease;
        if Instant::now() >= deadline {
            return Some(Lost::Expired);
        }
        // Not later than the deadline, even where the process stood still.
        tokio::time::sleep_until(pause.max(Instant::now() + lease / 20).min(deadline)).await;
        let asked = Instant::now();
        match timeout_at(deadline, instance.renew(lease / 2)).await {
            Ok(Ok(true)) => {
                renewed = asked;
                link.answered(Activity::Renew);
            }
            Ok(Ok(false)) => return Some(Lost::Fenced),
            // A renewal that may have been committed does no harm.
            Ok(Err(error)) => link.failed(Activity::Renew, error.fault()),
            Err(_) => return Some(Lost::Expired),
        }
    }
}

/// Looks for expired instances of the group and puts what they held on the board.
pub(super) async fn take_over(
    instance: Instance,
    board: Arc<Board>,
    link: Arc<Link>,
    metrics: Metrics,
) -> Option<Lost> {
    loop {
        match instance.take_over().await {
            Ok(claims) => {
                link.answered(Activity::TakeOver);
                if !claims.is_empty() {
                    tracing::info!(claims = claims.len(), "took over from a worker whose lease had ended");
                    metrics.taken_over(claims.len());
                    board.add_unread(claims);
                }
            }
            Err(error) => {
                link.failed(Activity::TakeOver, error.fault());
                if let Some(lost) = Lost::from_error(&error) {
                    return Some(lost);
                }
            }
        }
        sleep(TAKE_OVER_EVERY).await;
    }
}
