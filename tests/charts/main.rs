//! What the charts render to. Needs helm, which `tests/cluster/cluster bin` builds or finds.
//!
//! `INSTA_UPDATE=always cargo test --test charts` writes the golden files anew.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize as _;
use serde_yaml::Value;

type Outcome = Result<(), Box<dyn Error>>;

/// Helm's own guess, without a cluster, depends on how it was built.
const KUBERNETES: &str = "1.34.0";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn helm(arguments: &[&str]) -> Result<String, Box<dyn Error>> {
    let bin = Command::new(root().join("tests/cluster/cluster")).arg("bin").output()?;
    let bin = PathBuf::from(String::from_utf8(bin.stdout)?.trim());
    let output = Command::new(bin.join("helm"))
        .current_dir(root())
        .args(arguments)
        .output()?;
    if output.status.success() {
        Ok(String::from_utf8(output.stdout)?)
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned().into())
    }
}

fn template(chart: &str, arguments: &[&str]) -> Result<String, Box<dyn Error>> {
    let mut all = vec!["template", "sqlstreams", chart, "--namespace", "sqlstreams-system"];
    all.extend(["--kube-version", KUBERNETES]);
    all.extend(arguments);
    helm(&all)
}

fn documents(yaml: &str) -> Result<Vec<Value>, Box<dyn Error>> {
    let mut documents = Vec::new();
    for document in serde_yaml::Deserializer::from_str(yaml) {
        let value = Value::deserialize(document)?;
        if !value.is_null() {
            documents.push(value);
        }
    }
    Ok(documents)
}

fn kinds(documents: &[Value]) -> Vec<&str> {
    documents
        .iter()
        .filter_map(|document| document["kind"].as_str())
        .collect()
}

fn assert_golden(name: &str, rendered: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("golden");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, rendered));
}

#[test]
fn both_charts_pass_a_strict_lint() -> Outcome {
    for chart in ["charts/sqlstreams", "charts/sqlstreams-crds"] {
        helm(&["lint", "--strict", "--kube-version", KUBERNETES, chart])?;
    }
    Ok(())
}

#[test]
fn defaults_render_as_the_golden_file_says() -> Outcome {
    assert_golden("defaults", &template("charts/sqlstreams", &[])?);
    Ok(())
}

#[test]
fn every_value_reaches_its_place() -> Outcome {
    let rendered = template(
        "charts/sqlstreams",
        &["--values", "tests/charts/values/everything.yaml"],
    )?;
    assert_golden("everything", &rendered);
    Ok(())
}

#[test]
fn with_named_namespaces_and_a_cluster_id_nothing_is_cluster_wide() -> Outcome {
    let rendered = template(
        "charts/sqlstreams",
        &["--set", "watchNamespaces={payments,orders}", "--set", "clusterId=blue"],
    )?;
    let documents = documents(&rendered)?;
    let kinds = kinds(&documents);
    assert!(!kinds.iter().any(|kind| kind.starts_with("Cluster")), "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| **kind == "Role").count(), 2);
    assert_eq!(kinds.iter().filter(|kind| **kind == "RoleBinding").count(), 2);
    Ok(())
}

#[test]
fn no_secret_is_listed_and_no_rule_has_a_wildcard() -> Outcome {
    let rendered = template("charts/sqlstreams", &[])?;
    for role in documents(&rendered)?
        .iter()
        .filter(|document| document["kind"] == "ClusterRole")
    {
        for rule in role["rules"].as_sequence().ok_or("a role without rules")? {
            let text = serde_yaml::to_string(rule)?;
            assert!(!text.contains('*'), "{text}");
            if text.contains("secrets") {
                assert_eq!(rule["verbs"], serde_yaml::from_str::<Value>("[get]")?, "{text}");
            }
        }
    }
    Ok(())
}

#[test]
fn the_crds_of_the_chart_are_those_of_the_crds_folder() -> Outcome {
    let rendered = documents(&template("charts/sqlstreams-crds", &[])?)?;
    let mut names = Vec::new();
    for mut crd in rendered {
        let name = crd["metadata"]["name"]
            .as_str()
            .ok_or("a CRD without a name")?
            .to_owned();
        assert_eq!(crd["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");
        let metadata = crd["metadata"].as_mapping_mut().ok_or("a CRD without metadata")?;
        metadata.remove("annotations");
        metadata.remove("labels");
        let original: Value = serde_yaml::from_str(&fs::read_to_string(root().join(format!("crds/{name}.yaml")))?)?;
        assert!(crd == original, "{name} differs from crds/; run: make crds");
        names.push(format!("{name}.yaml"));
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(root().join("crds"))? {
        files.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    files.sort();
    assert_eq!(names, files);
    Ok(())
}

#[test]
fn the_crds_are_deleted_with_their_release_only_when_asked() -> Outcome {
    let rendered = template(
        "charts/sqlstreams-crds",
        &[
            "--set",
            "keep=false",
            "--set",
            "annotations.example\\.com/owner=platform",
        ],
    )?;
    for crd in documents(&rendered)? {
        let annotations = &crd["metadata"]["annotations"];
        assert!(annotations["helm.sh/resource-policy"].is_null());
        assert_eq!(annotations["example.com/owner"], "platform");
    }
    Ok(())
}

#[test]
fn values_that_mean_nothing_are_refused() -> Outcome {
    for (value, named) in [
        ("replicas=2", "replicas"),
        ("image.pullPolicy=Sometimes", "pullPolicy"),
        ("image.digest=latest", "digest"),
        ("watchNamespaces={Payments}", "watchNamespaces"),
        ("logFormat=xml", "logFormat"),
        ("service.port=0", "port"),
    ] {
        let refusal = template("charts/sqlstreams", &["--set", value]).err();
        let refusal = refusal.ok_or_else(|| format!("{value} was accepted"))?.to_string();
        assert!(refusal.contains(named), "{value}: {refusal}");
    }
    Ok(())
}

/// The paths of all values that have no values below them.
fn leaves(prefix: &str, values: &Value, found: &mut Vec<String>) {
    for (key, value) in values.as_mapping().into_iter().flatten() {
        let path = format!("{prefix}{}", key.as_str().unwrap_or_default());
        match value.as_mapping() {
            // Resources are the person's own.
            Some(below) if !below.is_empty() && path != "resources" => leaves(&format!("{path}."), value, found),
            _ => found.push(path),
        }
    }
}

#[test]
fn the_readme_names_every_value() -> Outcome {
    let chart = root().join("charts/sqlstreams");
    let readme = fs::read_to_string(chart.join("README.md"))?;
    let mut values = Vec::new();
    leaves(
        "",
        &serde_yaml::from_str(&fs::read_to_string(chart.join("values.yaml"))?)?,
        &mut values,
    );
    let missing: Vec<_> = values
        .iter()
        .filter(|value| !readme.contains(&format!("`{value}`")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    Ok(())
}
