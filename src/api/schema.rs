//! What the derived CRDs still need.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

/// Formats that the API server knows for numbers; it warns about all others.
const NUMBER_FORMATS: [&str; 4] = ["int32", "int64", "float", "double"];

/// Properties of Kubernetes' own types. `kubectl explain pod.spec` describes what is in them; the
/// descriptions here would only bring the definition near the size that client-side apply refuses.
const EMBEDDED: [&str; 9] = [
    "affinity",
    "env",
    "envFrom",
    "imagePullSecrets",
    "resources",
    "tolerations",
    "topologySpreadConstraints",
    "volumeMounts",
    "volumes",
];

/// Takes out of a derived definition what the API server would warn about, and what makes it large.
pub(super) fn finish(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        if let Some(schema) = version
            .schema
            .as_mut()
            .and_then(|schema| schema.open_api_v3_schema.as_mut())
        {
            tidy(schema);
        }
    }
    crd
}

fn tidy(schema: &mut JSONSchemaProps) {
    let is_number = matches!(schema.type_.as_deref(), Some("integer" | "number"));
    if is_number
        && schema
            .format
            .as_deref()
            .is_some_and(|format| !NUMBER_FORMATS.contains(&format))
    {
        schema.format = None;
    }
    each_child(schema, &mut |name, child| {
        tidy(child);
        if EMBEDDED.contains(&name) {
            each_child(child, &mut |_, grandchild| drop_descriptions(grandchild));
        }
    });
}

fn drop_descriptions(schema: &mut JSONSchemaProps) {
    schema.description = None;
    each_child(schema, &mut |_, child| drop_descriptions(child));
}

/// Visits the schemas one level down: properties by their names, items of lists and values of maps
/// under no name.
fn each_child(schema: &mut JSONSchemaProps, visit: &mut dyn FnMut(&str, &mut JSONSchemaProps)) {
    for (name, property) in schema.properties.iter_mut().flatten() {
        visit(name, property);
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(item)) => visit("", item),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(|item| visit("", item)),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        visit("", values);
    }
}
