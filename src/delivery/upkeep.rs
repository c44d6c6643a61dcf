//! Keeps the tables of a stream in shape: partitions ahead of the log, a short ledger of claims.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::link::{Activity, Link};
use super::lost::Lost;
use crate::database::instances::Instance;
use crate::database::{CallError, DatabaseError};

const PARTITIONS_EVERY: Duration = Duration::from_secs(1);
/// For how long the partitions ahead should last.
const AHEAD_SECONDS: f64 = 10.0;
const ROTATE_EVERY: Duration = Duration::from_secs(10);
/// While somebody, such as a dump, holds a lock on the ledger.
const ROTATE_EVERY_WHILE_LOCKED: Duration = Duration::from_secs(30);
/// A ledger shorter than this is left as it is.
const ROTATE_AT: i64 = 5_000;

/// How fast a log grows.
struct Growth {
    last: Option<(Instant, i64)>,
    per_second: f64,
}

impl Growth {
    /// Takes in the last id and returns for how many more there should be room.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
    fn ahead(&mut self, id: i64, now: Instant) -> i64 {
        if let Some((then, before)) = self.last {
            let seconds = now.duration_since(then).as_secs_f64().max(0.001);
            let observed = id.saturating_sub(before).max(0) as f64 / seconds;
            // A burst is remembered for a while.
            self.per_second = observed.max(self.per_second * 0.9);
        }
        self.last = Some((now, id));
        // Casting saturates.
        (self.per_second * AHEAD_SECONDS) as i64
    }
}

/// Works until the tables are gone.
pub(super) async fn run(instance: Instance, link: Arc<Link>) -> Option<Lost> {
    let mut growth = Growth {
        last: None,
        per_second: 0.0,
    };
    let mut rotate_at = Instant::now() + ROTATE_EVERY;
    loop {
        match top_up(&instance, &mut growth).await {
            Ok(()) => link.answered(Activity::Upkeep),
            Err(CallError::Failed(DatabaseError::NotProvisioned(_))) => return Some(Lost::Gone),
            Err(error) => link.failed(Activity::Upkeep, error.fault()),
        }
        if Instant::now() >= rotate_at {
            let pause = match instance.rotate_claims(ROTATE_AT).await {
                Err(CallError::Failed(DatabaseError::Locked)) => ROTATE_EVERY_WHILE_LOCKED,
                Err(error) => {
                    link.failed(Activity::Upkeep, error.fault());
                    ROTATE_EVERY
                }
                Ok(_) => ROTATE_EVERY,
            };
            // Not all workers of a group at the same time.
            rotate_at = Instant::now() + pause.mul_f64(rand::random_range(0.8..1.2));
        }
        sleep(PARTITIONS_EVERY).await;
    }
}

async fn top_up(instance: &Instance, growth: &mut Growth) -> Result<(), CallError> {
    let id = instance.last_drawn_id().await?;
    let made = instance.ensure_partitions(growth.ahead(id, Instant::now())).await?;
    if made > 0 {
        tracing::debug!(made, "created partitions of the log");
    }
    Ok(())
}
