//! From a Secret to a pool of connections.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions, PgSslMode};
use thiserror::Error;

use super::error::DatabaseError;

/// The oldest `server_version_num` that is supported.
pub const OLDEST_SERVER: i32 = 150_000;

/// How long to wait for a free or a new connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections that nobody used for so long are closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// How the connection is secured; the names are those of libpq's `sslmode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum TlsMode {
    /// No TLS.
    Disable,
    /// TLS, but the server's certificate is not checked.
    Require,
    /// The certificate must come from a known authority.
    VerifyCa,
    /// And must be made out to the host that was asked for.
    #[default]
    VerifyFull,
}

/// Where the database is and how to log in. `Debug` shows neither user nor password.
#[derive(Clone)]
pub struct Credentials(PgConnectOptions);

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// Why a Secret or a URL names no database. Never shows what the key holds.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CredentialsError {
    /// Neither `uri` nor `host`.
    #[error(
        "it has neither the key uri nor the key host; write the keys as CloudNativePG does: uri, or host, port, dbname, user and password"
    )]
    Missing,
    /// One of the single keys is absent.
    #[error("the key {0} is missing; beside host it needs dbname, user and password")]
    MissingKey(&'static str),
    /// A key is no text or not of the form it must have.
    #[error("the key {0} is not valid: {1}")]
    Invalid(&'static str, &'static str),
    /// The file with the authority's certificate cannot be read.
    #[error("the file with the certificate of the authority cannot be read: {0}")]
    UnreadableAuthority(String),
    /// The folder of a mounted Secret cannot be read.
    #[error("the folder of the Secret cannot be read: {0}")]
    Unreadable(String),
}

impl Credentials {
    /// Reads a Secret in the form that CloudNativePG writes: `uri`, or else `host`, `port` (5432
    /// where absent), `dbname`, `user` (or `username`) and `password`. An `sslmode` in the URI is
    /// not looked at; see [`Credentials::tls`].
    ///
    /// # Errors
    /// Names the key that is missing or malformed.
    pub fn from_keys(keys: &BTreeMap<String, Vec<u8>>) -> Result<Self, CredentialsError> {
        let text = |key: &'static str| -> Result<Option<&str>, CredentialsError> {
            keys.get(key)
                .map(|bytes| std::str::from_utf8(bytes).map_err(|_| CredentialsError::Invalid(key, "it is not UTF-8")))
                .transpose()
                .map(|text| text.map(str::trim).filter(|text| !text.is_empty()))
        };
        let required = |key: &'static str| text(key)?.ok_or(CredentialsError::MissingKey(key));
        if let Some(uri) = text("uri")? {
            return Self::from_url(uri);
        }
        let Some(host) = text("host")? else {
            return Err(CredentialsError::Missing);
        };
        let port = match text("port")? {
            Some(port) => port
                .parse()
                .map_err(|_| CredentialsError::Invalid("port", "it is no port number"))?,
            None => 5432,
        };
        let user = match text("user")? {
            Some(user) => user,
            None => text("username")?.ok_or(CredentialsError::MissingKey("user"))?,
        };
        Ok(Self::plain(
            PgConnectOptions::new_without_pgpass()
                .host(host)
                .port(port)
                .database(required("dbname")?)
                .username(user)
                .password(required("password")?),
        ))
    }

    /// Reads a URL such as `postgresql://user:password@host:5432/dbname`.
    ///
    /// # Errors
    /// When it is none.
    pub fn from_url(url: &str) -> Result<Self, CredentialsError> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(CredentialsError::Invalid("uri", "it must start with postgresql://"));
        }
        url.parse()
            .map(Self::plain)
            .map_err(|_| CredentialsError::Invalid("uri", "it must read postgresql://user:password@host:port/dbname"))
    }

    /// Reads a mounted Secret: a folder with a file for each key.
    ///
    /// # Errors
    /// As [`Credentials::from_keys`], and when the folder cannot be read.
    pub fn from_folder(folder: &Path) -> Result<Self, CredentialsError> {
        let unreadable = |error: std::io::Error| CredentialsError::Unreadable(error.to_string());
        let mut keys = BTreeMap::new();
        for entry in std::fs::read_dir(folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            // A mounted Secret also has links to folders, whose names start with two dots.
            if path.is_file()
                && let Some(name) = path.file_name().and_then(|name| name.to_str())
            {
                keys.insert(name.to_owned(), std::fs::read(&path).map_err(unreadable)?);
            }
        }
        Self::from_keys(&keys)
    }

    fn plain(options: PgConnectOptions) -> Self {
        // Poolers refuse startup parameters that they do not know.
        Self(options.extra_float_digits(None).application_name("sqlstreams"))
    }

    /// Sets how the connection is secured, and the authority to trust, in PEM.
    #[must_use]
    pub fn tls(self, mode: TlsMode, authority: Option<Vec<u8>>) -> Self {
        let options = self.0.ssl_mode(match mode {
            TlsMode::Disable => PgSslMode::Disable,
            TlsMode::Require => PgSslMode::Require,
            TlsMode::VerifyCa => PgSslMode::VerifyCa,
            TlsMode::VerifyFull => PgSslMode::VerifyFull,
        });
        Self(match authority {
            Some(pem) => options.ssl_root_cert_from_pem(pem),
            None => options,
        })
    }

    /// Whether the host is this machine itself, where TLS guards nothing.
    #[must_use]
    pub fn is_local(&self) -> bool {
        let host = self.0.get_host();
        self.0.get_socket().is_some()
            || host == "localhost"
            || host.starts_with('/')
            || host
                .parse::<std::net::IpAddr>()
                .is_ok_and(|address| address.is_loopback())
    }

    /// Sets the name under which the connections show in `pg_stat_activity`.
    #[must_use]
    pub fn named(self, application: &str) -> Self {
        Self(self.0.application_name(application))
    }

    /// A pool of at most `connections`, none of them opened yet.
    #[must_use]
    pub fn pool(&self, connections: u32) -> PgPool {
        PgPoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .idle_timeout(IDLE_TIMEOUT)
            .connect_lazy_with(self.0.clone())
    }

    /// Lets the connections that `pool` opens from now on log in with these.
    pub fn renew(&self, pool: &PgPool) {
        pool.set_connect_options(self.0.clone());
    }

    /// Opens one connection and closes it again, for the error that a pool hides behind its
    /// time-out.
    ///
    /// # Errors
    /// What keeps a connection from being made.
    pub async fn check(&self) -> Result<(), DatabaseError> {
        use sqlx::{ConnectOptions, Connection};
        let connection = tokio::time::timeout(ACQUIRE_TIMEOUT, self.0.connect())
            .await
            .map_err(|_| DatabaseError::Unreachable("no answer within the time limit".into()))??;
        connection.close().await?;
        Ok(())
    }
}

/// What a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFacts {
    /// For people, such as `15.18`.
    pub version: String,
}

/// Looks at the server and refuses one that cannot be worked with.
///
/// # Errors
/// [`DatabaseError::TooOld`], [`DatabaseError::ReadOnly`], [`DatabaseError::WrongIsolation`], or
/// whatever keeps it from answering.
pub async fn inspect(pool: &PgPool) -> Result<ServerFacts, DatabaseError> {
    let mut transaction = pool.begin().await?;
    let (number, version, recovering, read_only, isolation): (i32, String, bool, String, String) = sqlx::query_as(
        "SELECT current_setting('server_version_num')::int, split_part(current_setting('server_version'), ' ', 1), \
         pg_is_in_recovery(), current_setting('transaction_read_only'), current_setting('transaction_isolation')",
    )
    .persistent(false)
    .fetch_one(&mut *transaction)
    .await?;
    transaction.commit().await?;
    judge(number, &version, recovering || read_only == "on", &isolation)?;
    Ok(ServerFacts { version })
}

/// The decision of [`inspect`], without a server.
///
/// # Errors
/// As [`inspect`].
pub fn judge(number: i32, version: &str, read_only: bool, isolation: &str) -> Result<(), DatabaseError> {
    if number < OLDEST_SERVER {
        Err(DatabaseError::TooOld(version.to_owned()))
    } else if read_only {
        Err(DatabaseError::ReadOnly)
    } else if isolation != "read committed" {
        Err(DatabaseError::WrongIsolation)
    } else {
        Ok(())
    }
}
