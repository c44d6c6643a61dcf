//! The lines of a file or of standard input.

use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

use super::super::Failure;
use super::super::lines::LineError;

/// No message may be longer than 4 MiB; written with escapes it takes more room.
const MAX_LINE: usize = 32 * 1024 * 1024;
/// Lines that wait are sent after so long without another.
const PAUSE: Duration = Duration::from_millis(200);

/// What comes next.
pub(super) enum Next {
    /// A line, without the line feed.
    Line(Result<Vec<u8>, LineError>),
    /// Nothing for now.
    Pause,
    /// Nothing any more.
    End,
}

pub(super) struct Lines {
    reader: Box<dyn AsyncBufRead + Unpin + Send>,
    /// What was read of a line whose end has not come yet.
    begun: Vec<u8>,
}

impl Lines {
    pub(super) async fn open(path: &Path) -> Result<Self, Failure> {
        let reader: Box<dyn AsyncBufRead + Unpin + Send> = if path.as_os_str() == "-" {
            Box::new(BufReader::new(tokio::io::stdin()))
        } else {
            let file = tokio::fs::File::open(path)
                .await
                .map_err(|error| format!("{}: {error}", path.display()))?;
            Box::new(BufReader::with_capacity(256 * 1024, file))
        };
        Ok(Self {
            reader,
            begun: Vec::new(),
        })
    }

    /// The next line; a pause only where `may_pause`. May be dropped and called again.
    pub(super) async fn next(&mut self, may_pause: bool) -> std::io::Result<Next> {
        if may_pause {
            match tokio::time::timeout(PAUSE, self.read()).await {
                Ok(next) => next,
                Err(_) => Ok(Next::Pause),
            }
        } else {
            self.read().await
        }
    }

    async fn read(&mut self) -> std::io::Result<Next> {
        let room = (MAX_LINE + 1).saturating_sub(self.begun.len());
        (&mut self.reader)
            .take(room as u64)
            .read_until(b'\n', &mut self.begun)
            .await?;
        if self.begun.is_empty() {
            return Ok(Next::End);
        }
        let mut line = std::mem::take(&mut self.begun);
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if line.len() > MAX_LINE {
            return Ok(Next::Line(Err(LineError::TooLong(MAX_LINE))));
        }
        Ok(Next::Line(Ok(line)))
    }

    /// Passes over a line, however long; whether there was one.
    pub(super) async fn skip(&mut self) -> std::io::Result<bool> {
        let mut any = false;
        loop {
            let part = self.reader.fill_buf().await?;
            if part.is_empty() {
                return Ok(any);
            }
            any = true;
            match part.iter().position(|byte| *byte == b'\n') {
                Some(end) => {
                    self.reader.consume(end + 1);
                    return Ok(true);
                }
                None => {
                    let all = part.len();
                    self.reader.consume(all);
                }
            }
        }
    }
}
