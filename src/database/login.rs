//! A login that can be read again, for when it was rotated.

use std::path::PathBuf;

use super::connection::{Credentials, CredentialsError, TlsMode};

/// Where the login comes from.
#[derive(Clone, Debug)]
pub enum LoginSource {
    /// A mounted Secret; read again when a login is refused, since it may have been rotated.
    Folder(PathBuf),
    /// A URL.
    Url(SecretUrl),
}

/// A URL that may hold a password.
#[derive(Clone)]
pub struct SecretUrl(pub String);

/// Never shows it.
impl std::fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretUrl")
    }
}

/// How to log in to the database.
#[derive(Clone, Debug)]
pub struct Login {
    /// Where the login comes from.
    pub source: LoginSource,
    /// How the connection is secured; by default as strictly as the host allows.
    pub tls_mode: Option<TlsMode>,
    /// Certificate of the authority to trust, a file in PEM.
    pub tls_authority: Option<PathBuf>,
}

impl Login {
    /// Reads the login as it is now.
    ///
    /// # Errors
    /// When there is none, or a file cannot be read.
    pub fn read(&self) -> Result<Credentials, CredentialsError> {
        let credentials = match &self.source {
            LoginSource::Folder(folder) => Credentials::from_folder(folder)?,
            LoginSource::Url(SecretUrl(url)) => Credentials::from_url(url)?,
        };
        let authority = self
            .tls_authority
            .as_deref()
            .map(std::fs::read)
            .transpose()
            .map_err(|error| CredentialsError::UnreadableAuthority(error.to_string()))?;
        let by_default = if credentials.is_local() {
            TlsMode::Disable
        } else {
            TlsMode::default()
        };
        let mode = self.tls_mode.unwrap_or(by_default);
        Ok(credentials.tls(mode, authority))
    }
}
