//! A PgBouncer in transaction mode.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use super::Server;
use super::binaries::Account;

/// A running pooler. Each transaction of a client may get another connection to the server.
pub struct Pooler {
    port: u16,
    child: Child,
}

impl Pooler {
    /// In front of a server.
    pub async fn start(server: &Server) -> Self {
        let program = program().expect("pgbouncer is installed (tests/cluster/cluster packages --tests)");
        let port = super::server::free_port();
        let settings = server.socket_folder().join(format!("pgbouncer-{port}.ini"));
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 4\n\
             server_round_robin = 1\n",
            server.port()
        );
        std::fs::write(&settings, text).expect("the folder can be written to");
        let mut command = Account::command(Account::needed().as_ref(), &program);
        command
            .arg(&settings)
            .current_dir("/")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().expect("pgbouncer can be run");
        for _ in 0..200 {
            if tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        Self { port, child }
    }

    /// The URL of a database, by way of this pooler.
    pub fn url(&self, url: &str) -> String {
        let (_, database) = url.rsplit_once('/').expect("a URL has a path");
        format!("postgresql://postgres@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .map(|folder| folder.join("pgbouncer"))
        .find(|program| Path::is_file(program))
}
