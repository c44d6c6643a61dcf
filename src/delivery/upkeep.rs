//! Keeps the tables of a stream in shape: partitions ahead of the log, a short ledger of claims.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::link::{Activity, Link};
use super::lost::Lost;
use crate::database::instances::Instance;
use crate::database::partitions::Growth;
use crate::database::{CallError, DatabaseError};

const PARTITIONS_EVERY: Duration = Duration::from_secs(1);
const ROTATE_EVERY: Duration = Duration::from_secs(10);
/// While somebody, such as a dump, holds a lock on the ledger.
const ROTATE_EVERY_WHILE_LOCKED: Duration = Duration::from_secs(30);
/// A ledger shorter than this is left as it is.
const ROTATE_AT: i64 = 5_000;

/// Works until the tables are gone.
pub(super) async fn run(instance: Instance, link: Arc<Link>) -> Option<Lost> {
    let mut growth = Growth::default();
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
