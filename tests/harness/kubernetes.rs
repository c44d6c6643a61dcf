//! A real API server for tests, named by `SQLSTREAMS_TEST_KUBECONFIG`; `make test-apiserver` starts
//! one. Each test has a namespace of its own.

use std::fmt::Debug;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, Resource, ResourceExt, discovery};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

const VARIABLE: &str = "SQLSTREAMS_TEST_KUBECONFIG";
/// Long enough for a machine that does much else at the same time.
const PATIENCE: Duration = Duration::from_secs(30);

static NAMESPACES: AtomicU32 = AtomicU32::new(0);
static DEFINED: OnceCell<()> = OnceCell::const_new();

/// A namespace of one test.
#[derive(Clone)]
pub struct TestNamespace {
    pub client: Client,
    pub name: String,
}

/// A new namespace on the API server, which knows the custom resources.
pub async fn namespace() -> TestNamespace {
    sqlstreams::tls::install();
    let client = connect().await;
    DEFINED.get_or_init(|| define(client.clone())).await;
    let number = NAMESPACES.fetch_add(1, Ordering::Relaxed);
    let name = format!("test-{}-{number}", std::process::id());
    let namespace = Namespace {
        metadata: kube::core::ObjectMeta {
            name: Some(name.clone()),
            ..Default::default()
        },
        ..Namespace::default()
    };
    Api::all(client.clone())
        .create(&PostParams::default(), &namespace)
        .await
        .expect("a namespace can be made");
    TestNamespace { client, name }
}

async fn connect() -> Client {
    let path = std::env::var(VARIABLE)
        .unwrap_or_else(|_| panic!("{VARIABLE} names no kubeconfig; run these tests with make test-apiserver"));
    let kubeconfig = Kubeconfig::read_from(&path).expect("the kubeconfig can be read");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .expect("it names a cluster");
    Client::try_from(config).expect("a client can be made")
}

/// Applies the definitions of the custom resources and waits until they are served.
async fn define(client: Client) {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    for crd in sqlstreams::api::crds() {
        let parameters = PatchParams::apply("test").force();
        api.patch(&crd.name_any(), &parameters, &Patch::Apply(&crd))
            .await
            .expect("a definition is accepted");
    }
    eventually("the custom resources are served", async || {
        discovery::pinned_kind(
            &client,
            &kube::core::GroupVersionKind::gvk("sqlstreams.io", "v1alpha1", "ConsumerGroup"),
        )
        .await
        .ok()
    })
    .await;
}

impl TestNamespace {
    /// The objects of a kind in the namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// Applies a manifest as kubectl would.
    pub async fn apply(&self, manifest: &Value) -> Result<DynamicObject, kube::Error> {
        let text = |key: &str| manifest[key].as_str().unwrap_or_default().to_owned();
        let (group, version) = match text("apiVersion").split_once('/') {
            Some((group, version)) => (group.to_owned(), version.to_owned()),
            None => (String::new(), text("apiVersion")),
        };
        let kind = kube::core::GroupVersionKind::gvk(&group, &version, &text("kind"));
        let resource = kube::core::ApiResource::from_gvk(&kind);
        let name = manifest["metadata"]["name"].as_str().expect("a manifest has a name");
        Api::<DynamicObject>::namespaced_with(self.client.clone(), &self.name, &resource)
            .patch(name, &PatchParams::apply("test").force(), &Patch::Apply(manifest))
            .await
    }

    /// Applies manifests that must be accepted.
    pub async fn apply_all(&self, manifests: &[Value]) {
        for manifest in manifests {
            let _ = self
                .apply(manifest)
                .await
                .unwrap_or_else(|error| panic!("{error}: {manifest}"));
        }
    }

    /// Changes an object by a merge patch.
    pub async fn merge<K>(&self, name: &str, patch: Value) -> K
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        self.api::<K>()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .expect("a patch is accepted")
    }

    /// Changes the status of an object, as its controller would.
    pub async fn merge_status<K>(&self, name: &str, status: Value) -> K
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
    {
        let patch = Patch::Merge(json!({ "status": status }));
        self.api::<K>()
            .patch_status(name, &PatchParams::default(), &patch)
            .await
            .expect("a status is accepted")
    }
}

/// Asks again until there is an answer, and fails the test where none comes in time.
pub async fn eventually<T, F>(what: &str, mut ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
