//! A way to the database that can break at the worst moment.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// When the next connection breaks that commits a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// Before the server sees the COMMIT.
    Before,
    /// After it has carried it out, before the answer arrives.
    After,
}

pub struct Proxy {
    pub address: SocketAddr,
    state: Arc<State>,
}

struct State {
    server: u16,
    before: AtomicBool,
    after: AtomicBool,
    closed: AtomicBool,
    cut: std::sync::Mutex<CancellationToken>,
}

impl Proxy {
    /// In front of a server on this machine.
    pub async fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            server,
            before: AtomicBool::new(false),
            after: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            cut: std::sync::Mutex::default(),
        });
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let state = Arc::clone(&shared);
                if !state.closed.load(Ordering::Relaxed) {
                    let cut = state.cut.lock().unwrap().clone();
                    tokio::spawn(cut.run_until_cancelled_owned(async move { state.carry(client).await }));
                }
            }
        });
        Self { address, state }
    }

    /// The URL of a database, by way of this proxy.
    pub fn url(&self, url: &str) -> String {
        let (_, path) = url.rsplit_once('/').unwrap();
        format!("postgresql://postgres@{}/{path}", self.address)
    }

    pub fn break_next_settlement(&self, when: Break) {
        match when {
            Break::Before => &self.state.before,
            Break::After => &self.state.after,
        }
        .store(true, Ordering::Relaxed);
    }

    /// Whether [`Proxy::break_next_settlement`] has happened.
    pub fn has_broken(&self) -> bool {
        !self.state.before.load(Ordering::Relaxed) && !self.state.after.load(Ordering::Relaxed)
    }

    /// Breaks all connections and takes no new ones.
    pub fn close(&self) {
        self.state.closed.store(true, Ordering::Relaxed);
        std::mem::take(&mut *self.state.cut.lock().unwrap()).cancel();
    }

    pub fn open(&self) {
        self.state.closed.store(false, Ordering::Relaxed);
    }
}

impl State {
    async fn carry(&self, client: TcpStream) {
        let Ok(server) = TcpStream::connect(("127.0.0.1", self.server)).await else {
            return;
        };
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let muted = AtomicBool::new(false);
        let back = async {
            let mut buffer = vec![0; 65_536];
            loop {
                let length = from_server.read(&mut buffer).await?;
                if length == 0 {
                    return Ok::<(), std::io::Error>(());
                }
                if !muted.load(Ordering::Relaxed) {
                    to_client.write_all(&buffer[..length]).await?;
                }
            }
        };
        let forth = async {
            let mut buffer = vec![0; 65_536];
            let mut settling = false;
            loop {
                let length = from_client.read(&mut buffer).await?;
                if length == 0 {
                    return Ok::<(), std::io::Error>(());
                }
                let chunk = &buffer[..length];
                let has = |text: &[u8]| chunk.windows(text.len()).any(|window| window == text);
                settling |= has(b".settle(");
                if settling && has(b"COMMIT\0") {
                    settling = false;
                    if self.before.swap(false, Ordering::Relaxed) {
                        return Ok(());
                    }
                    if self.after.swap(false, Ordering::Relaxed) {
                        muted.store(true, Ordering::Relaxed);
                        to_server.write_all(chunk).await?;
                        // Until it has surely been carried out.
                        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
                        return Ok(());
                    }
                }
                to_server.write_all(chunk).await?;
            }
        };
        tokio::select! {
            _ = forth => {}
            _ = back => {}
        }
    }
}
