//! What the pods of workers and of retention jobs have in common. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, Container, KeyToPath, PodSecurityContext, SeccompProfile, SecretVolumeSource, SecurityContext,
    Volume, VolumeMount,
};
use kube::ResourceExt;

use super::context::Image;
use super::stream_database::tls_mode;
use crate::api::StreamDatabase;

/// Where the Secret with the login is mounted.
const DATABASE_FOLDER: &str = "/etc/sqlstreams/database";
/// Where the authority of the server's certificate is mounted.
const AUTHORITY_FOLDER: &str = "/etc/sqlstreams/authority";
/// The user of the image, by number, since Kubernetes cannot check a name.
const USER: i64 = 65532;

/// How a pod reaches a database.
pub(super) struct DatabaseAccess {
    pub(super) arguments: Vec<String>,
    pub(super) volumes: Vec<Volume>,
    pub(super) mounts: Vec<VolumeMount>,
}

/// The Secret `secret` as a folder, which Kubernetes keeps up to date, so that a rotated password
/// needs no restart.
pub(super) fn database_access(database: &StreamDatabase, secret: &str) -> DatabaseAccess {
    let mode = clap::ValueEnum::to_possible_value(&tls_mode(database.spec.tls.mode));
    let mut access = DatabaseAccess {
        arguments: vec![
            format!("--database-folder={DATABASE_FOLDER}"),
            format!(
                "--tls-mode={}",
                mode.as_ref().map_or("verify-full", |mode| mode.get_name())
            ),
            format!("--schema={}", database.spec.schema),
        ],
        volumes: vec![secret_volume("database", secret, None)],
        mounts: vec![mount("database", DATABASE_FOLDER)],
    };
    if let Some(authority) = &database.spec.tls.ca_secret_ref {
        access
            .arguments
            .push(format!("--tls-ca-file={AUTHORITY_FOLDER}/ca.crt"));
        access
            .volumes
            .push(secret_volume("authority", &authority.name, Some(&authority.key)));
        access.mounts.push(mount("authority", AUTHORITY_FOLDER));
    }
    access
}

fn secret_volume(name: &str, secret: &str, key: Option<&str>) -> Volume {
    Volume {
        name: name.into(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(secret.into()),
            default_mode: Some(0o444),
            items: key.map(|key| {
                vec![KeyToPath {
                    key: key.into(),
                    path: "ca.crt".into(),
                    mode: None,
                }]
            }),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    }
}

fn mount(name: &str, path: &str) -> VolumeMount {
    VolumeMount {
        name: name.into(),
        mount_path: path.into(),
        read_only: Some(true),
        ..VolumeMount::default()
    }
}

/// A container that runs this program.
pub(super) fn own_container(name: &str, image: &Image, arguments: Vec<String>, mounts: Vec<VolumeMount>) -> Container {
    Container {
        name: name.into(),
        image: Some(image.reference.clone()),
        image_pull_policy: image.pull_policy.clone(),
        args: Some(arguments.iter().map(|argument| literal(argument)).collect()),
        volume_mounts: Some(mounts),
        security_context: Some(SecurityContext {
            run_as_user: Some(USER),
            run_as_group: Some(USER),
            read_only_root_filesystem: Some(true),
            ..restricted_container()
        }),
        ..Container::default()
    }
}

/// `text` so that Kubernetes, which replaces $(NAME) and $$ in arguments and variables, leaves it as
/// it is.
pub(super) fn literal(text: &str) -> String {
    text.replace('$', "$$")
}

/// What the restricted level of Pod Security asks of a container.
pub(super) fn restricted_container() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities {
            drop: Some(vec!["ALL".into()]),
            add: None,
        }),
        ..SecurityContext::default()
    }
}

/// What the restricted level of Pod Security asks of a pod.
pub(super) fn restricted_pod() -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".into(),
            localhost_profile: None,
        }),
        ..PodSecurityContext::default()
    }
}

/// The labels by which the pods of `owner` are found and told from those of others. `component`
/// tells what they are.
pub(super) fn labels<K: ResourceExt>(owner: &K, component: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("app.kubernetes.io/name".into(), "sqlstreams".into()),
        ("app.kubernetes.io/component".into(), component.into()),
        ("app.kubernetes.io/managed-by".into(), "sqlstreams".into()),
        (
            "app.kubernetes.io/instance".into(),
            super::names::bounded(&owner.name_any(), 63),
        ),
    ])
}
