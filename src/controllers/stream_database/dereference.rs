//! What a StreamDatabase names: Secrets; and who names it.

use kube::api::ListParams;
use kube::{Api, ResourceExt};

use crate::api::conditions::DATABASE_REACHABLE;
use crate::api::{Stream, StreamDatabase, TlsVerification};
use crate::controllers::context::{Context, read_secret};
use crate::controllers::error::Problem;
use crate::database::connection::{Credentials, TlsMode};

/// A login, and what it was read from.
pub(super) struct Login {
    pub(super) credentials: Credentials,
    /// Changes with every change of what the login was read from.
    pub(super) revision: String,
}

/// Reads the Secrets.
pub(super) async fn login(context: &Context, resource: &StreamDatabase) -> Result<Login, Problem> {
    let namespace = resource.namespace().unwrap_or_default();
    let secret = &resource.spec.secret_ref.name;
    let (keys, mut revision) = read_secret(&context.client, &namespace, secret, DATABASE_REACHABLE).await?;
    let invalid = |message: String| Problem::Reported {
        condition: DATABASE_REACHABLE,
        reason: "InvalidSecret",
        message,
    };
    let credentials = Credentials::from_keys(&keys).map_err(|error| invalid(format!("Secret {secret}: {error}")))?;
    let authority = match &resource.spec.tls.ca_secret_ref {
        Some(reference) => {
            let (mut keys, version) =
                read_secret(&context.client, &namespace, &reference.name, DATABASE_REACHABLE).await?;
            revision = format!("{revision} {version}");
            let pem = keys
                .remove(&reference.key)
                .ok_or_else(|| invalid(format!("Secret {} has no key {}", reference.name, reference.key)))?;
            Some(pem)
        }
        None => None,
    };
    let generation = resource.metadata.generation.unwrap_or_default();
    Ok(Login {
        credentials: credentials
            .tls(tls_mode(resource.spec.tls.mode), authority)
            .named("sqlstreams-operator"),
        revision: format!("{generation} {revision}"),
    })
}

/// The same word in the resource and for the driver.
pub(crate) fn tls_mode(verification: TlsVerification) -> TlsMode {
    match verification {
        TlsVerification::Disable => TlsMode::Disable,
        TlsVerification::Require => TlsMode::Require,
        TlsVerification::VerifyCA => TlsMode::VerifyCa,
        TlsVerification::VerifyFull => TlsMode::VerifyFull,
    }
}

/// The names of the Streams in the database.
pub(super) async fn users(context: &Context, resource: &StreamDatabase) -> Result<Vec<String>, Problem> {
    let streams = Api::<Stream>::namespaced(context.client.clone(), &resource.namespace().unwrap_or_default())
        .list(&ListParams::default())
        .await?;
    Ok(streams
        .iter()
        .filter(|stream| stream.spec.database_ref.name == resource.name_any())
        .map(ResourceExt::name_any)
        .collect())
}
