//! `sqlstreams publish`

mod batch;
mod source;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::database_arguments::DatabaseArguments;
use super::lines::LineFormat;
use super::output::print;
use super::{Failure, block_on};
use batch::Publisher;
use source::{Lines, Next};

/// Lines of one batch together have at most about so many bytes.
const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// Publish messages, one JSON value a line
#[derive(Debug, Args)]
pub(super) struct Publish {
    #[command(flatten)]
    database: DatabaseArguments,

    /// Name of the stream
    #[arg(long, value_name = "NAME", env = "SQLSTREAMS_STREAM")]
    stream: String,

    /// File with the lines; - is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,

    /// Each line is the payload; this is the default
    #[arg(long, conflicts_with = "envelope")]
    raw: bool,

    /// Each line is an object with the fields payload, key, headers and idempotency_key
    #[arg(long)]
    envelope: bool,

    /// Take the key from this place in the payload, such as /customer/id
    #[arg(long, value_name = "JSONPOINTER", value_parser = pointer)]
    key_field: Option<String>,

    /// Messages in one transaction
    #[arg(long, value_name = "COUNT", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch_size: u32,

    /// Leave out so many lines at the beginning, to go on after a failure
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    skip_lines: u64,

    /// Form of the summary
    #[arg(long, value_name = "FORM", default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

fn pointer(text: &str) -> Result<String, &'static str> {
    if text.starts_with('/') {
        Ok(text.to_owned())
    } else {
        Err("a JSON pointer starts with /, such as /customer/id")
    }
}

impl Publish {
    pub(super) fn run(&self) -> Result<(), Failure> {
        block_on(self.publish())
    }

    async fn publish(&self) -> Result<(), Failure> {
        let format = LineFormat {
            envelope: self.envelope,
            key_field: self.key_field.clone(),
        };
        let database = self.database.open("sqlstreams-publish", 1)?;
        let mut publisher = Publisher::new(database, self.stream.clone(), self.skip_lines);
        let mut lines = Lines::open(&self.file).await?;
        let bar = progress_bar();
        let result = self.pump(&mut lines, &format, &mut publisher, &bar).await;
        bar.finish_and_clear();
        let summary = &publisher.summary;
        if let Err(failure) = result {
            return Err(format!(
                "{failure}\n{} published before; to go on: --skip-lines {}",
                messages(summary.published),
                summary.lines
            )
            .into());
        }
        let text = match self.output {
            Output::Text => match summary.ids {
                Some((first, last)) => {
                    let published = messages(summary.published);
                    format!("{published} published to {}, ids {first} to {last}\n", self.stream)
                }
                None => "nothing to publish\n".into(),
            },
            Output::Json => {
                let ids = summary.ids;
                let summary = json!({
                    "stream": self.stream,
                    "lines": summary.lines,
                    "published": summary.published,
                    "firstId": ids.map(|ids| ids.0),
                    "lastId": ids.map(|ids| ids.1),
                });
                format!("{summary}\n")
            }
        };
        // It is published, whoever reads of it: a failure would have it published again.
        if let Err(failure) = print(&text) {
            eprintln!("sqlstreams: {text}{failure}");
        }
        Ok(())
    }

    /// Reads, and publishes each batch when it is full or when no more lines come for now.
    async fn pump(
        &self,
        lines: &mut Lines,
        format: &LineFormat,
        publisher: &mut Publisher,
        bar: &ProgressBar,
    ) -> Result<(), Failure> {
        for _ in 0..self.skip_lines {
            if !lines.skip().await? {
                return Err(format!("--skip-lines {}: there are not that many lines", self.skip_lines).into());
            }
        }
        let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
        loop {
            let next = tokio::select! {
                next = lines.next(!publisher.batch_is_empty()) => next?,
                _ = &mut interrupt => return Err("interrupted".into()),
            };
            let end = matches!(next, Next::End);
            let flush = match next {
                Next::Line(line) => {
                    let number = publisher.next_line();
                    let message = line
                        .map_err(Failure::from)
                        .and_then(|line| format.parse(&line).map_err(Failure::from))
                        .map_err(|error| format!("line {number} {error}; its batch was not sent"))?;
                    publisher.add(message);
                    publisher.batch_len() >= self.batch_size as usize || publisher.batch_bytes() >= BATCH_BYTES
                }
                Next::Pause | Next::End => true,
            };
            if flush {
                publisher.flush().await?;
                bar.set_position(publisher.summary.published);
            }
            if end {
                return Ok(());
            }
        }
    }
}

fn messages(count: u64) -> String {
    match count {
        1 => "1 message was".into(),
        _ => format!("{count} messages were"),
    }
}

/// Shows itself on a terminal only.
fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {human_pos} published, {per_sec}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(std::time::Duration::from_millis(100));
    bar
}
