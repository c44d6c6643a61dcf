//! Starts, watches and removes the server.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::binaries::{self, Account};

const PREFIX: &str = "sqlstreams-test-";
const START_LIMIT: Duration = Duration::from_secs(60);
/// The keeper may take this long to remove what it kept.
const STALE_AFTER: Duration = Duration::from_secs(10);

/// Holds the server until its standard input ends, then removes it. The arguments are the folder
/// and the command that runs the server.
const KEEPER: &str = r#"
trap '' INT TERM HUP
folder=$1; shift
"$@" >"$folder/log" 2>&1 </dev/null &
read -r _
kill -QUIT "$!" 2>/dev/null
wait "$!"
rm -rf "$folder"
"#;

const SETTINGS: &[&str] = &[
    "fsync=off",
    "full_page_writes=off",
    "max_connections=300",
    "max_prepared_transactions=20",
    "shared_buffers=128MB",
    "max_wal_size=2GB",
    "jit=off",
    "timezone=UTC",
];

/// A running server.
pub struct Server {
    port: u16,
    folder: PathBuf,
    /// Its standard input is the pipe whose end ends the server.
    _keeper: Child,
}

impl Server {
    /// Starts one.
    pub fn start() -> Self {
        remove_stale();
        let binaries = binaries::folder();
        let account = Account::needed();
        let folder = make_folder(account.as_ref());
        let data = folder.join("data");
        let output = Account::command(account.as_ref(), &binaries.join("initdb"))
            .args([
                "--auth=trust",
                "--username=postgres",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
            ])
            .arg("--pgdata")
            .arg(&data)
            .current_dir("/")
            .output()
            .expect("initdb can be run");
        assert!(
            output.status.success(),
            "initdb: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let port = free_port();
        let mut server = Account::command(account.as_ref(), &binaries.join("postgres"));
        server
            .arg("-D")
            .arg(&data)
            .arg("-p")
            .arg(port.to_string())
            .arg("-k")
            .arg(&folder);
        server.args(["-h", "127.0.0.1"]);
        for setting in SETTINGS {
            server.args(["-c", setting]);
        }
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "sqlstreams-test-keeper"]).arg(&folder);
        keeper.arg(server.get_program()).args(server.get_args());
        // A group of its own, so that Ctrl+C and time limits leave it the time to clean up.
        let keeper = keeper
            .current_dir("/")
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("sh can be run");
        std::fs::write(folder.join("keeper.pid"), keeper.id().to_string()).expect("the folder can be written to");
        let server = Self {
            port,
            folder,
            _keeper: keeper,
        };
        server.wait();
        server
    }

    /// Where a database of it is.
    pub fn url(&self, database: &str) -> String {
        format!("postgresql://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// The folder of its unix socket.
    pub fn socket_folder(&self) -> &Path {
        &self.folder
    }

    /// Its port, on 127.0.0.1 and in the name of the socket.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn wait(&self) {
        let began = Instant::now();
        let ready = self.folder.join("data/postmaster.pid");
        while !std::fs::read_to_string(&ready).is_ok_and(|text| text.contains("ready")) {
            assert!(began.elapsed() < START_LIMIT, "Postgres did not start:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

fn make_folder(account: Option<&Account>) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("{PREFIX}{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the folder for temporary files can be written to");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o750)).expect("the folder is ours");
    if let Some(Account { uid, gid }) = account {
        std::os::unix::fs::chown(&folder, Some(*uid), Some(*gid)).expect("root may give the folder away");
    }
    folder
}

pub(super) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    listener.local_addr().expect("it has an address").port()
}

/// Removes servers whose keeper was killed before it could.
fn remove_stale() {
    let folders = std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    for folder in folders.filter(|folder| folder.file_name().to_string_lossy().starts_with(PREFIX)) {
        let path = folder.path();
        let age = folder
            .metadata()
            .ok()
            .and_then(|metadata| metadata.modified().ok()?.elapsed().ok());
        let kept = match std::fs::read_to_string(path.join("keeper.pid")) {
            Ok(keeper) => is_keeper(&keeper),
            // Just being made, or left before it was complete.
            Err(_) => age.is_none_or(|age| age < START_LIMIT),
        };
        if kept || age.is_none_or(|age| age < STALE_AFTER) {
            continue;
        }
        if let Ok(pid) = std::fs::read_to_string(path.join("data/postmaster.pid"))
            && let Some(pid) = pid.lines().next()
            && command_line(pid).contains(&*path.to_string_lossy())
        {
            let _ = Command::new("kill").args(["-QUIT", pid]).status();
        }
        let _ = std::fs::remove_dir_all(path);
    }
}

fn is_keeper(pid: &str) -> bool {
    command_line(pid.trim()).contains("sqlstreams-test-keeper")
}

/// Of a process that is gone: nothing. Where there is no /proc, of all processes.
fn command_line(pid: &str) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}
