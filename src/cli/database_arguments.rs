//! The flags that say which database is meant, the same for every subcommand.

use std::path::PathBuf;

use clap::Args;

use super::Failure;
use crate::database::connection::{Credentials, CredentialsError, TlsMode};
use crate::database::login::{Login, LoginSource, SecretUrl};
use crate::database::{Database, Schema};

/// Which database, and how to reach it
#[derive(Debug, Args)]
#[command(next_help_heading = "Database")]
pub(super) struct DatabaseArguments {
    /// Folder with the login, as a mounted Secret: uri, or host, port, dbname, user and password
    #[arg(
        long,
        value_name = "FOLDER",
        env = "SQLSTREAMS_DATABASE_FOLDER",
        conflicts_with = "database_url"
    )]
    database_folder: Option<PathBuf>,

    /// The login as a URL; the variable keeps it out of the list of processes
    #[arg(long, value_name = "URL", env = "SQLSTREAMS_DATABASE_URL", hide_env_values = true, value_parser = secret_url)]
    database_url: Option<SecretUrl>,

    /// How the connection is secured; verify-full by default, or disable where the host is this machine
    #[arg(long, value_name = "MODE", env = "SQLSTREAMS_TLS_MODE")]
    tls_mode: Option<TlsMode>,

    /// Authority that signed the server's certificate, in PEM; the public ones by default
    #[arg(long, value_name = "FILE", env = "SQLSTREAMS_TLS_CA_FILE")]
    tls_ca_file: Option<PathBuf>,

    /// Schema of the installation
    #[arg(long, value_name = "NAME", env = "SQLSTREAMS_SCHEMA", default_value = "sqlstreams")]
    schema: Schema,

    /// Most connections to open at once
    #[arg(long, value_name = "COUNT", env = "SQLSTREAMS_CONNECTIONS",
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    connections: Option<u32>,
}

impl DatabaseArguments {
    /// Whether a database was named at all.
    pub(super) fn given(&self) -> bool {
        self.database_folder.is_some() || self.database_url.is_some()
    }

    /// The database that the flags name. Nothing is connected to yet.
    ///
    /// `application` shows in `pg_stat_activity`; `connections` counts where the flag is absent.
    pub(super) fn open(&self, application: &str, connections: u32) -> Result<Database, Failure> {
        let credentials = self.credentials()?.named(application);
        Ok(Database {
            pool: credentials.pool(self.connections.unwrap_or(connections)),
            schema: self.schema.clone(),
        })
    }

    /// The login, to be read now and again after it was rotated.
    pub(super) fn login(&self) -> Result<Login, Failure> {
        let source = match (&self.database_folder, &self.database_url) {
            (Some(folder), _) => LoginSource::Folder(folder.clone()),
            (None, Some(url)) => LoginSource::Url(url.clone()),
            (None, None) => {
                return Err("no database is named; give --database-url or --database-folder, \
                            or set SQLSTREAMS_DATABASE_URL or SQLSTREAMS_DATABASE_FOLDER"
                    .into());
            }
        };
        Ok(Login {
            source,
            tls_mode: self.tls_mode,
            tls_authority: self.tls_ca_file.clone(),
        })
    }

    /// The login as it is now.
    pub(super) fn credentials(&self) -> Result<Credentials, Failure> {
        let login = self.login()?;
        let flag = match &login.source {
            LoginSource::Folder(folder) => format!("--database-folder {}", folder.display()),
            LoginSource::Url(_) => "--database-url".into(),
        };
        Ok(login.read().map_err(|error| match error {
            CredentialsError::UnreadableAuthority(_) => error.to_string(),
            _ => format!("{flag}: {error}"),
        })?)
    }
}

fn secret_url(text: &str) -> Result<SecretUrl, std::convert::Infallible> {
    Ok(SecretUrl(text.into()))
}
