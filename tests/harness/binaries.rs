//! Where Postgres is installed, and as whom to run it.

use std::path::{Path, PathBuf};
use std::process::Command;

const HINT: &str = "no Postgres 15 or newer was found. Install one (Debian and Ubuntu: apt-get install postgresql; \
                    Fedora: dnf install postgresql-server; macOS: brew install postgresql), or set \
                    SQLSTREAMS_POSTGRES_BIN to the folder that holds initdb and postgres";

/// The folder with `initdb` and `postgres`.
pub fn folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("SQLSTREAMS_POSTGRES_BIN") {
        let folder = PathBuf::from(folder);
        assert!(
            holds_server(&folder),
            "SQLSTREAMS_POSTGRES_BIN: {} holds no initdb and postgres",
            folder.display()
        );
        return folder;
    }
    candidates()
        .into_iter()
        .find(|folder| holds_server(folder))
        .expect(HINT)
}

fn candidates() -> Vec<PathBuf> {
    let mut candidates: Vec<PathBuf> = std::env::var_os("PATH")
        .map(|path| std::env::split_paths(&path).collect())
        .unwrap_or_default();
    let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versions.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    candidates.extend(versions.into_iter().map(|(_, folder)| folder));
    if let Ok(output) = Command::new("pg_config").arg("--bindir").output() {
        candidates.push(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    }
    candidates
}

fn holds_server(folder: &Path) -> bool {
    folder.join("initdb").is_file()
        && Command::new(folder.join("postgres"))
            .arg("--version")
            .output()
            .is_ok_and(|output| major_version(&String::from_utf8_lossy(&output.stdout)) >= 15)
}

/// From a line such as `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
fn major_version(line: &str) -> u32 {
    let number = line.split_whitespace().nth(2).unwrap_or_default();
    let digits = number.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().unwrap_or(0)
}

/// A user other than root, as whom Postgres agrees to run.
pub struct Account {
    pub uid: u32,
    pub gid: u32,
}

impl Account {
    /// `None` where this process is not root's and needs nobody else.
    pub fn needed() -> Option<Self> {
        if id(&["-u"])? != 0 {
            return None;
        }
        let account = ["postgres", "nobody"].iter().find_map(|name| {
            Some(Self {
                uid: id(&["-u", name])?,
                gid: id(&["-g", name])?,
            })
        });
        Some(account.expect("running as root, and there is neither a user postgres nor nobody to run Postgres as"))
    }

    /// A command that runs `program` as this user.
    pub fn command(account: Option<&Self>, program: &Path) -> Command {
        let Some(Self { uid, gid }) = account else {
            return Command::new(program);
        };
        let mut command = Command::new("setpriv");
        command
            .arg(format!("--reuid={uid}"))
            .arg(format!("--regid={gid}"))
            .arg("--clear-groups")
            .arg(program);
        command
    }
}

fn id(arguments: &[&str]) -> Option<u32> {
    let output = Command::new("id").args(arguments).output().ok()?;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}
