//! The custom resources: data only, no client.
//!
//! The CRDs in `crds/` are generated from these types; see [`crds`].

pub mod conditions;
mod consumer_group;
mod consumer_group_status;
mod duration;
mod handler;
mod references;
mod retry;
mod schema;
mod stream;
mod stream_database;
mod worker;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;

pub use consumer_group::{ConsumerGroup, ConsumerGroupSpec, StartAt, StartFrom};
pub use consumer_group_status::{ConsumerGroupStatus, RetryPolicyStatus};
pub use duration::{Duration, DurationError};
pub use handler::{ContainerHandler, Handler, Header, HttpHandler, Program, ServiceTarget};
pub use references::{Adoption, DeletionPolicy, ObjectReference, SecretKeyReference};
pub use retry::{Jitter, Retry};
pub use stream::{GroupSummary, Retention, Stream, StreamSpec, StreamStatus};
pub use stream_database::{
    DatabaseTls, Pool, StreamDatabase, StreamDatabaseSpec, StreamDatabaseStatus, TlsVerification,
};
pub use worker::WorkerSettings;

/// The API group of every kind.
pub const GROUP: &str = "sqlstreams.io";
/// The API version of every kind.
pub const VERSION: &str = "v1alpha1";
/// Keeps a resource until what it stands for in Postgres has been dealt with.
pub const FINALIZER: &str = "sqlstreams.io/finalizer";
/// `"true"` on a resource: the operator leaves it and all that belongs to it alone.
pub const PAUSE_ANNOTATION: &str = "sqlstreams.io/paused";
/// `"true"` on a resource that is being deleted: let it go without touching its database, for
/// when the database will never answer again.
pub const ABANDON_ANNOTATION: &str = "sqlstreams.io/abandon";
/// The UID of a lost owner from whom a resource takes a stream or group over.
pub const TAKE_OVER_ANNOTATION: &str = "sqlstreams.io/take-over-from";

/// The definitions of every kind, in the order in which they are applied.
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![StreamDatabase::crd(), Stream::crd(), ConsumerGroup::crd()]
        .into_iter()
        .map(schema::finish)
        .collect()
}
