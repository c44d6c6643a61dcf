//! What can go wrong with a database, told by SQLSTATE.
//!
//! Neither a DETAIL nor, but for a few codes that only ever name roles and relations, the primary
//! message of Postgres is kept: both can carry values of rows.

use thiserror::Error;

/// A fault of the database or of the way to it. The text says what a person can do about it.
#[derive(Debug, Error)]
pub enum DatabaseError {
    /// No connection, or it broke.
    #[error(
        "the database cannot be reached ({0}); check the host and port in the Secret, the network policy and that Postgres runs"
    )]
    Unreachable(String),
    /// TLS could not be agreed on.
    #[error("no secure connection to the database ({0}); check tls.mode and tls.caSecretRef")]
    Tls(String),
    /// Wrong user or password, or pg_hba.conf refuses them (class 28).
    #[error("the database refuses the login ({0}); check user and password in the Secret and pg_hba.conf")]
    Authentication(String),
    /// The database of the connection does not exist (3D000).
    #[error("{0}; create it or correct dbname in the Secret")]
    NoSuchDatabase(String),
    /// The role lacks a right (42501).
    #[error("{0}; grant it to the role that the Secret names")]
    PermissionDenied(String),
    /// A standby, or `default_transaction_read_only` (25006).
    #[error(
        "the database is read-only; point the Secret at the primary, or unset default_transaction_read_only for the role"
    )]
    ReadOnly,
    /// Older than [`super::connection::OLDEST_SERVER`].
    #[error("the server is Postgres {0}; sqlstreams needs 15 or newer")]
    TooOld(String),
    /// Not READ COMMITTED, on which the fence relies.
    #[error(
        "the transactions of this role are not READ COMMITTED; unset default_transaction_isolation for the role and the database"
    )]
    WrongIsolation,
    /// No free connection slot (53300).
    #[error("the database has no connection left; lower pool.maxConnections or raise max_connections")]
    TooManyConnections,
    /// The schema or one of its tables or functions is not there (3F000, 42P01, 42883).
    #[error(
        "the schema does not hold a complete sqlstreams installation ({0}); see the StreamDatabase resource, whose operator provisions it"
    )]
    NotProvisioned(String),
    /// The schema was made by a newer release.
    #[error("the schema is at version {found}, this release knows versions up to {known}; upgrade sqlstreams")]
    NewerSchema {
        /// The version found in the database.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// No stream has the name (42704).
    #[error("{0}; apply a Stream resource with this streamName first")]
    NoSuchStream(String),
    /// The stream belongs to another resource than the one that is acted for (SS002).
    #[error("{0}; the Stream resource was deleted or the stream was handed to another one")]
    NotOwned(String),
    /// The worker instance lost its lease (SS001).
    #[error("another worker has taken over what this one held")]
    Fenced,
    /// A lock was not to be had in the time allowed (55P03).
    #[error("a lock is held by another transaction; tried again later")]
    Locked,
    /// A deadlock or a serialisation failure (class 40).
    #[error("the transaction was in another's way (SQLSTATE {0}); tried again")]
    Retry(String),
    /// The statement ran into `statement_timeout` or was cancelled (57014).
    #[error("the statement was cancelled, perhaps by the role's statement_timeout")]
    Cancelled,
    /// Anything else.
    #[error("the database reports SQLSTATE {0}")]
    Other(String),
    /// The reply was not what the program expects.
    #[error("unexpected reply of the database: {0}")]
    Protocol(String),
}

impl DatabaseError {
    /// One word for a condition's reason, an event or a metric label.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "DatabaseUnreachable",
            Self::Tls(_) => "TLSFailed",
            Self::Authentication(_) => "AuthenticationFailed",
            Self::NoSuchDatabase(_) => "NoSuchDatabase",
            Self::PermissionDenied(_) => "PermissionDenied",
            Self::ReadOnly => "DatabaseReadOnly",
            Self::TooOld(_) => "UnsupportedVersion",
            Self::WrongIsolation => "WrongIsolationLevel",
            Self::TooManyConnections => "TooManyConnections",
            Self::NotProvisioned(_) => "NotProvisioned",
            Self::NewerSchema { .. } => "NewerSchema",
            Self::NoSuchStream(_) => "NoSuchStream",
            Self::NotOwned(_) => "NotOwned",
            Self::Fenced => "Fenced",
            Self::Locked => "Locked",
            Self::Retry(_) => "Retry",
            Self::Cancelled => "StatementCancelled",
            Self::Other(_) => "DatabaseError",
            Self::Protocol(_) => "ProtocolError",
        }
    }

    /// Whether the connection, rather than what was asked, is at fault.
    #[must_use]
    pub fn is_connection(&self) -> bool {
        matches!(
            self,
            Self::Unreachable(_)
                | Self::Tls(_)
                | Self::Authentication(_)
                | Self::NoSuchDatabase(_)
                | Self::TooManyConnections
        )
    }

    fn from_sqlstate(error: &dyn sqlx::error::DatabaseError) -> Self {
        let code = error.code().unwrap_or_default().into_owned();
        // Messages of these codes name roles, databases, relations and streams, never values.
        let message = || error.message().to_owned();
        match code.as_str() {
            "SS001" => Self::Fenced,
            "SS002" => Self::NotOwned(message()),
            "42704" => Self::NoSuchStream(message()),
            "3D000" => Self::NoSuchDatabase(message()),
            "42501" => Self::PermissionDenied(message()),
            "25006" => Self::ReadOnly,
            "25000" => Self::WrongIsolation,
            "53300" => Self::TooManyConnections,
            "3F000" | "42P01" | "42883" => Self::NotProvisioned(message()),
            "55P03" => Self::Locked,
            "57014" => Self::Cancelled,
            "57P01" | "57P02" | "57P03" => Self::Unreachable("it is shutting down or starting up".into()),
            _ if code.starts_with("28") => Self::Authentication(message()),
            _ if code.starts_with("40") => Self::Retry(code),
            _ if code.starts_with("08") => Self::Unreachable(format!("SQLSTATE {code}")),
            _ => Self::Other(code),
        }
    }
}

impl From<sqlx::Error> for DatabaseError {
    fn from(error: sqlx::Error) -> Self {
        match error {
            sqlx::Error::Database(error) => Self::from_sqlstate(error.as_ref()),
            // A certificate that is not trusted comes as a fault of the stream it was read from.
            sqlx::Error::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => Self::Tls(error.to_string()),
            sqlx::Error::Io(error) => Self::Unreachable(error.to_string()),
            sqlx::Error::Tls(error) => Self::Tls(error.to_string()),
            sqlx::Error::PoolTimedOut => Self::Unreachable("no connection within the time limit".into()),
            sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => {
                Self::Unreachable("the connection pool is closed".into())
            }
            sqlx::Error::RowNotFound => Self::Protocol("no row".into()),
            sqlx::Error::ColumnNotFound(name) => Self::Protocol(format!("no column {name}")),
            sqlx::Error::Protocol(text) if text.contains("SSL") || text.contains("TLS") => Self::Tls(text),
            // Texts of these may quote what was decoded.
            sqlx::Error::ColumnDecode { index, .. } => Self::Protocol(format!("column {index} has another type")),
            sqlx::Error::Protocol(_) => Self::Unreachable("the reply is not that of a Postgres server".into()),
            sqlx::Error::Migrate(error) => (*error).into(),
            _ => Self::Protocol("the driver failed".into()),
        }
    }
}

impl From<sqlx::migrate::MigrateError> for DatabaseError {
    fn from(error: sqlx::migrate::MigrateError) -> Self {
        use sqlx::migrate::MigrateError;
        match error {
            MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => error.into(),
            MigrateError::VersionMissing(found) => Self::NewerSchema {
                found,
                known: super::migrate::newest_version(),
            },
            MigrateError::VersionMismatch(version) => Self::Protocol(format!(
                "migration {version} was applied from another text than this release has"
            )),
            MigrateError::Dirty(version) => Self::Protocol(format!("migration {version} was left half done")),
            _ => Self::Protocol("the migrations cannot be run".into()),
        }
    }
}
