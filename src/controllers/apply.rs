//! Server-side apply, of children and of the controllers' part of status.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::context::MANAGER;
use super::error::Problem;
use super::names::hash;
use crate::api::conditions::READY;

/// On a child: a hash of what was applied last.
const APPLIED_ANNOTATION: &str = "sqlstreams.io/applied";

/// Brings a child to what is wanted and returns it as it is then. Writes nothing where it is so
/// already, and touches nothing that another resource owns.
pub(crate) async fn child<K, O>(client: &Client, owner: &O, wanted: &K) -> Result<K, Problem>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
    O: Resource<DynamicType = ()>,
{
    let name = wanted.name_any();
    let api = Api::<K>::namespaced(client.clone(), &owner.meta().namespace.clone().unwrap_or_default());
    let wanted = marked(to_value(wanted)?);
    if let Some(current) = api.get_opt(&name).await? {
        prove_owner(owner, &current)?;
        if covers(&to_value(&current)?, &wanted) {
            return Ok(current);
        }
    }
    Ok(api
        .patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(wanted))
        .await?)
}

/// A child with a mark of all that it says, so that what it says no longer is missed too: a field
/// that is gone from it cannot be seen by looking for the fields that are there.
fn marked(mut wanted: Value) -> Value {
    let mark = format!("{:016x}", hash(&wanted.to_string()));
    wanted["metadata"]["annotations"][APPLIED_ANNOTATION] = Value::String(mark);
    wanted
}

/// Deletes a child of `owner`, and tells whether it is gone.
pub(crate) async fn remove<K, O>(
    client: &Client,
    owner: &O,
    name: &str,
    parameters: &DeleteParams,
) -> Result<bool, Problem>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
    O: Resource<DynamicType = ()>,
{
    let api = Api::<K>::namespaced(client.clone(), &owner.meta().namespace.clone().unwrap_or_default());
    let Some(current) = api.get_opt(name).await? else {
        return Ok(true);
    };
    if prove_owner(owner, &current).is_err() {
        return Ok(true);
    }
    if current.meta().deletion_timestamp.is_none() {
        api.delete(name, parameters).await?;
    }
    Ok(false)
}

fn prove_owner<K, O>(owner: &O, child: &K) -> Result<(), Problem>
where
    K: Resource<DynamicType = ()>,
    O: Resource<DynamicType = ()>,
{
    let mut references = child.meta().owner_references.iter().flatten();
    if references.any(|reference| Some(&reference.uid) == owner.meta().uid.as_ref()) {
        return Ok(());
    }
    let mut references = child.meta().owner_references.iter().flatten();
    if references.any(|reference| reference.kind == O::kind(&()) && Some(&reference.name) == owner.meta().name.as_ref())
    {
        // Of a resource that was deleted under this name, whose children are being collected.
        return Err(Problem::Waiting(
            "what belonged to a deleted resource of this name to go",
        ));
    }
    Err(Problem::Reported {
        condition: READY,
        reason: "NameTaken",
        message: format!(
            "{} {} exists and belongs to somebody else; delete or rename it, or use another name here",
            K::kind(&()),
            child.name_any()
        ),
    })
}

/// Writes the operator's part of a status. A resource that is gone meanwhile needs none.
pub(crate) async fn status<K, S>(client: &Client, resource: &K, status: &S) -> Result<(), Problem>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
    S: Serialize,
{
    let api = Api::<K>::namespaced(client.clone(), &resource.namespace().unwrap_or_default());
    let patch = json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": { "uid": resource.uid() },
        "status": status,
    });
    match api
        .patch_status(
            &resource.name_any(),
            &PatchParams::apply(MANAGER).force(),
            &Patch::Apply(patch),
        )
        .await
    {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn to_value(object: &impl Serialize) -> Result<Value, Problem> {
    serde_json::to_value(object).map_err(|error| Problem::Undecodable(error.to_string()))
}

/// Whether `current` already says all that `wanted` says; what else it says is not looked at.
/// Entries of a list are found by their name where they have one.
pub(crate) fn covers(current: &Value, wanted: &Value) -> bool {
    match (current, wanted) {
        (Value::Object(current), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, wanted)| wanted.is_null() || current.get(key).is_some_and(|current| covers(current, wanted))),
        (Value::Array(current), Value::Array(wanted)) => {
            let named = |entry: &Value| entry.get("name").cloned();
            current.len() == wanted.len()
                && wanted.iter().enumerate().all(|(place, wanted)| {
                    let current = match named(wanted) {
                        Some(name) => current.iter().find(|current| named(current).as_ref() == Some(&name)),
                        None => current.get(place),
                    };
                    current.is_some_and(|current| covers(current, wanted))
                })
        }
        (current, wanted) => current == wanted,
    }
}
