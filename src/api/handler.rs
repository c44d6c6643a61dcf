//! Who is given the messages.

use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, ResourceRequirements, VolumeMount};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Duration;

/// Who is given the messages: an HTTP endpoint, a container beside the worker, or a program that
/// is built on the sqlstreams library.
///
/// Over HTTP each message is a POST with its payload as the body. An answer of 2xx means done, 410
/// or the header `sqlstreams-outcome: terminal` means dead at once, and all else, no answer
/// included, means that it failed and is tried again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("[has(self.http), has(self.container), has(self.sdk)].filter(x, x).size() == 1").message("handler needs exactly one of http, container and sdk"))]
pub struct Handler {
    /// An HTTP endpoint: a Service of the namespace or a URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpHandler>,
    /// A container that runs beside the worker in its pod and is called over localhost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<ContainerHandler>,
    /// A program that is built on the sqlstreams library and is the worker itself. It is told what
    /// to do by variables of its environment whose names begin with SQLSTREAMS_.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sdk: Option<Program>,
    /// An attempt that takes longer has failed.
    #[serde(default = "default_timeout")]
    #[x_kube(validation = Rule::new("!self.matches('^(0+(ms|s|m|h|d))+$')").message("timeout must be longer than nothing"))]
    pub timeout: Duration,
}

fn default_timeout() -> Duration {
    Duration::from_secs(30)
}

/// An HTTP endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.url) != has(self.service)").message("handler.http needs exactly one of url and service"))]
pub struct HttpHandler {
    /// Address outside the namespace. Names that lead to loopback, link-local or private addresses
    /// are refused when connecting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048), regex(pattern = "^https?://[^\\s@]+$"))]
    pub url: Option<String>,
    /// A Service of the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceTarget>,
    /// Headers sent with each message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub headers: Vec<Header>,
}

/// A Service of the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceTarget {
    /// Name of the Service; one of type ExternalName is refused.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Port of the Service.
    #[serde(default = "default_service_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
    /// Path of the request.
    #[serde(default = "default_path")]
    #[schemars(length(min = 1, max = 1024), regex(pattern = "^/[^\\s#]*$"))]
    pub path: String,
}

fn default_service_port() -> u16 {
    80
}

fn default_path() -> String {
    "/".into()
}

/// A header with a fixed value. Not for secrets: the value stands in the pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Name of the header; those that the protocol sets itself cannot be replaced.
    #[schemars(length(min = 1, max = 128), regex(pattern = "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"))]
    #[x_kube(validation = Rule::new("!self.lowerAscii().matches('^(ce-.*|sqlstreams-.*|webhook-.*|content-type|content-length|host|traceparent|connection|transfer-encoding)$')").message("this header is set by the protocol itself"))]
    pub name: String,
    /// Value of the header.
    #[schemars(length(max = 4096), regex(pattern = "^[\\x20-\\x7e]*$"))]
    pub value: String,
}

/// A container that runs beside the worker in its pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerHandler {
    /// What the container runs.
    #[serde(flatten)]
    pub program: Program,
    /// Port on which the container listens, on all addresses or on localhost.
    #[serde(default = "default_container_port")]
    #[schemars(range(min = 1024, max = 65535))]
    pub port: u16,
    /// Path of the request.
    #[serde(default = "default_path")]
    #[schemars(length(min = 1, max = 1024), regex(pattern = "^/[^\\s#]*$"))]
    pub path: String,
}

/// What a container of a handler runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Program {
    /// Image of the container.
    #[schemars(length(min = 1, max = 1024))]
    pub image: String,
    /// When the image is pulled; Kubernetes decides where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^(Always|IfNotPresent|Never)$"))]
    pub image_pull_policy: Option<String>,
    /// Replaces the entry point of the image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 32_768)))]
    pub command: Vec<String>,
    /// Arguments of the entry point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 32_768)))]
    pub args: Vec<String>,
    /// Environment of the container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub env: Vec<EnvVar>,
    /// ConfigMaps and Secrets whose keys become the environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub env_from: Vec<EnvFromSource>,
    /// Requests and limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Where volumes of worker.volumes are mounted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub volume_mounts: Vec<VolumeMount>,
}

fn default_container_port() -> u16 {
    8081
}
