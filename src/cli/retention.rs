//! `sqlstreams retention`

use std::time::Duration;

use clap::{Args, Subcommand};
use tracing::info;
use uuid::Uuid;

use super::database_arguments::DatabaseArguments;
use super::{Failure, block_on};
use crate::database::retention::{Request, preview, run};

/// How long to try for the locks of one step.
const PATIENCE: Duration = Duration::from_secs(60);

/// Drop messages whose time is over
#[derive(Debug, Args)]
pub(super) struct Retention {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Run),
}

/// Drop what is expired and finished by every group; what is in the way is reported
#[derive(Debug, Args)]
struct Run {
    #[command(flatten)]
    database: DatabaseArguments,

    /// Name of the stream
    #[arg(long, value_name = "NAME", env = "SQLSTREAMS_STREAM")]
    stream: String,

    /// UID of the Stream resource that owns it; nothing is dropped where another one does
    #[arg(long, value_name = "UID")]
    owner_uid: Uuid,

    /// Say what would be dropped, and change nothing
    #[arg(long)]
    dry_run: bool,
}

impl Retention {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let Command::Run(command) = &self.command;
        block_on(command.run())
    }
}

impl Run {
    async fn run(&self) -> Result<(), Failure> {
        let database = self.database.open("sqlstreams-retention", 1)?;
        let request = Request {
            stream: self.stream.clone(),
            owner: self.owner_uid,
            patience: PATIENCE,
        };
        if !self.dry_run {
            run(&database, &request).await?;
            return Ok(());
        }
        let expired = preview(&database, &request).await?;
        let mut blocked = false;
        for expired in &expired {
            // A partition goes only after those before it.
            blocked |= !expired.behind.is_empty();
            let in_the_way: Vec<String> = expired
                .behind
                .iter()
                .map(|blocker| format!("{} {}", blocker.group, blocker.reason))
                .collect();
            info!(
                stream = self.stream,
                partition = expired.partition.name,
                size_bytes = expired.partition.size_bytes,
                behind = in_the_way.join("; "),
                "{}",
                if blocked { "would be kept" } else { "would be dropped" }
            );
        }
        info!(
            stream = self.stream,
            expired = expired.len(),
            "dry run: nothing was changed"
        );
        Ok(())
    }
}
