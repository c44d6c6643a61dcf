//! Ways to name another object, and what is done when a resource comes or goes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Another object, of the same namespace always.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// Name of the object. It is looked for in the namespace of the resource that names it.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// One key of a Secret in the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyReference {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key in the Secret.
    #[serde(default = "default_key")]
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

fn default_key() -> String {
    "ca.crt".into()
}

/// What becomes of the data in Postgres when the resource is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// It stays, without an owner, and a resource that names it later can adopt it.
    #[default]
    Retain,
    /// It is dropped.
    Delete,
}

/// What is done with data in Postgres that is there before the resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Adoption {
    /// It is adopted where it has no owner.
    #[default]
    IfUnowned,
    /// It is left alone, and the resource gets a Conflict condition.
    Never,
}
