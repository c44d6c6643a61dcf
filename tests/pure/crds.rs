//! The definitions in `crds/` are those of the types.

use kube::ResourceExt;
use serde_json::Value;

/// What client-side `kubectl apply` can keep in its annotation.
const MOST_BYTES: usize = 262_144;

#[test]
fn the_files_are_what_the_types_say() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/crds");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    files.sort();
    let mut expected = Vec::new();
    for crd in sqlstreams::api::crds() {
        let file = format!("{}.yaml", crd.name_any());
        let text = std::fs::read_to_string(format!("{folder}/{file}")).unwrap_or_default();
        assert!(
            text == serde_yaml::to_string(&crd).expect("YAML"),
            "crds/{file} is out of date; run make crds"
        );
        expected.push(file);
    }
    expected.sort();
    assert_eq!(files, expected);
}

#[test]
fn each_fits_into_what_kubectl_apply_keeps() {
    for crd in sqlstreams::api::crds() {
        let bytes = serde_json::to_string(&crd).expect("JSON").len();
        assert!(bytes < MOST_BYTES, "{} has {bytes} bytes", crd.name_any());
    }
}

/// Every text and list has a bound, which also bounds the cost of rules, but for those of
/// Kubernetes' own types and of the status, which the operator writes.
#[test]
fn every_text_and_list_of_a_spec_is_bounded() {
    let own = [
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
    for crd in sqlstreams::api::crds() {
        let crd_name = crd.name_any();
        let schema = serde_json::to_value(&crd).expect("JSON");
        let spec = &schema["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        let mut unbounded = Vec::new();
        visit(spec, "spec", &own, &mut unbounded);
        assert!(unbounded.is_empty(), "{crd_name}: {unbounded:?}");
    }
}

fn visit(schema: &Value, path: &str, skipped: &[&str], unbounded: &mut Vec<String>) {
    let bounded = match schema["type"].as_str() {
        Some("string") => {
            ["maxLength", "enum", "format"]
                .iter()
                .any(|bound| !schema[bound].is_null())
                || schema["pattern"]
                    .as_str()
                    .is_some_and(|pattern| pattern.starts_with("^(Always|"))
        }
        Some("array") => !schema["maxItems"].is_null(),
        _ => true,
    };
    if !bounded {
        unbounded.push(path.to_owned());
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        if skipped.contains(&name.as_str()) {
            if property["type"] == "array" && property["maxItems"].is_null() {
                unbounded.push(path);
            }
        } else {
            visit(property, &path, skipped, unbounded);
        }
    }
    if !schema["items"].is_null() {
        visit(&schema["items"], &format!("{path}[]"), skipped, unbounded);
    }
}

#[test]
fn every_field_has_a_description() {
    for crd in sqlstreams::api::crds() {
        let schema = serde_json::to_value(&crd).expect("JSON");
        for part in ["spec", "status"] {
            let root = &schema["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][part];
            for (name, property) in root["properties"].as_object().expect("properties") {
                assert!(property["description"].is_string(), "{}: {part}.{name}", crd.name_any());
            }
        }
    }
}
