//! How a long-running command is told to stop.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A token that SIGTERM or SIGINT cancels. A second signal ends the process at once.
///
/// # Errors
/// When the signals cannot be listened to.
pub(super) fn stop() -> std::io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let token = CancellationToken::new();
    let stop = token.clone();
    tokio::spawn(async move {
        let mut told = false;
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if told {
                std::process::exit(130);
            }
            told = true;
            tracing::info!("stopping; a second signal ends the process at once");
            stop.cancel();
        }
    });
    Ok(token)
}
