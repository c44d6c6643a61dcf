//! How the process is told to stop.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Exit code of a process that a second signal ended.
const INTERRUPTED: i32 = 130;

/// A token that SIGTERM or SIGINT cancels. Another signal after that ends the process at once.
pub(super) fn stop_token() -> std::io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = CancellationToken::new();
    let told = stop.clone();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if told.is_cancelled() {
                tracing::warn!("told to stop twice, ending at once");
                std::process::exit(INTERRUPTED);
            }
            tracing::info!("told to stop");
            told.cancel();
        }
    });
    Ok(stop)
}
