//! StreamDatabase: a Postgres database that holds streams.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ObjectReference, SecretKeyReference};

/// A Postgres database, version 15 or newer, that holds streams. The operator creates its tables
/// in one schema of it and touches nothing else.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "sqlstreams.io",
    version = "v1alpha1",
    kind = "StreamDatabase",
    plural = "streamdatabases",
    shortname = "sdb",
    category = "sqlstreams",
    namespaced,
    status = "StreamDatabaseStatus",
    derive = "PartialEq",
    doc = "A Postgres database that holds streams.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".status.serverVersion",
        description = "Version of Postgres"
    ),
    printcolumn(name = "Schema", type_ = "string", json_path = ".spec.schema"),
    printcolumn(name = "Streams", type_ = "integer", json_path = ".status.streams"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        priority = "1"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.schema == oldSelf.schema").message("schema cannot be changed: create another StreamDatabase instead").field_path(".schema"))]
pub struct StreamDatabaseSpec {
    /// Secret with the login that provisions: uri, or host, port, dbname, user and password, the
    /// keys that CloudNativePG writes. The role must own the schema, or be allowed to create it.
    pub secret_ref: ObjectReference,
    /// Secret of the same form with the login of the workers; secretRef where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_secret_ref: Option<ObjectReference>,
    /// Secret of the same form with the login of the retention jobs; secretRef where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_secret_ref: Option<ObjectReference>,
    /// Schema that holds the installation. It is created where it is absent.
    #[serde(default = "default_schema")]
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z_][a-z0-9_]*$"))]
    #[x_kube(validation = Rule::new("!self.startsWith('pg_') && self != 'information_schema'").message("schema must not be one of Postgres's own (pg_..., information_schema)"))]
    pub schema: String,
    /// How connections are secured.
    #[serde(default)]
    pub tls: DatabaseTls,
    /// Bounds of the operator's own connections.
    #[serde(default)]
    pub pool: Pool,
}

fn default_schema() -> String {
    "sqlstreams".into()
}

/// What is checked of the server's certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum TlsVerification {
    /// No TLS at all: passwords are hashed, but messages cross the network in the clear.
    Disable,
    /// TLS without a check of who the server is.
    Require,
    /// The certificate must come from a known authority.
    VerifyCA,
    /// And must be made out to the host.
    #[default]
    VerifyFull,
}

/// How connections to the database are secured. An sslmode in the Secret's URI is not looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseTls {
    /// What is checked of the server's certificate.
    #[serde(default)]
    pub mode: TlsVerification,
    /// Authority that signed the server's certificate, in PEM; the public ones where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<SecretKeyReference>,
}

/// Bounds of the operator's own connections to the database. Workers open their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    /// Most connections that the operator opens, whatever the number of streams and groups.
    #[serde(default = "default_connections")]
    #[schemars(range(min = 1, max = 100))]
    pub max_connections: u32,
}

fn default_connections() -> u32 {
    4
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            max_connections: default_connections(),
        }
    }
}

/// What the operator found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamDatabaseStatus {
    /// The generation of the spec that the conditions speak of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready, DatabaseReachable and Provisioned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// Version of Postgres, such as 15.18.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_version: Option<String>,
    /// Version of the sqlstreams schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_version: Option<i64>,
    /// Streams in the schema, those without a Stream resource included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<i64>,
}
