//! What a ConsumerGroup is turned into.

use insta::assert_yaml_snapshot;
use serde_json::{Value, json};
use uuid::Uuid;

use super::desired::{Plan, workers};
use super::status::{Facts, compute};
use super::validate::{Valid, validate};
use crate::api::conditions::{NO_DEAD_LETTERS, PROVISIONED, READY, WORKERS_AVAILABLE};
use crate::api::{ConsumerGroup, ConsumerGroupStatus, Stream, StreamDatabase};
use crate::controllers::context::Image;
use crate::controllers::error::Problem;
use crate::controllers::status::is_written;
use crate::database::ownership::Owner;

fn group(spec: Value) -> ConsumerGroup {
    serde_json::from_value(json!({
        "apiVersion": "sqlstreams.io/v1alpha1", "kind": "ConsumerGroup",
        "metadata": {"name": "charge-cards", "namespace": "payments", "uid": "6fdc4ac6-3f0e-4ac4-a82e-95a8e6fdd4fb", "generation": 3},
        "spec": spec,
    }))
    .expect("a group")
}

fn stream(spec: Value) -> Stream {
    let mut whole = json!({"databaseRef": {"name": "main"}});
    whole
        .as_object_mut()
        .expect("an object")
        .extend(spec.as_object().expect("an object").clone());
    serde_json::from_value(json!({
        "apiVersion": "sqlstreams.io/v1alpha1", "kind": "Stream",
        "metadata": {"name": "payments.requested", "namespace": "payments"}, "spec": whole,
    }))
    .expect("a stream")
}

fn database(spec: Value) -> StreamDatabase {
    serde_json::from_value(json!({
        "apiVersion": "sqlstreams.io/v1alpha1", "kind": "StreamDatabase",
        "metadata": {"name": "main", "namespace": "payments"}, "spec": spec,
    }))
    .expect("a database")
}

fn valid(group: &ConsumerGroup, stream: &Stream) -> Result<Valid, String> {
    let owner = Owner {
        uid: Uuid::nil(),
        reference: "payments/charge-cards".into(),
        cluster_id: "c".into(),
    };
    validate(group, stream, owner).map_err(|problem| problem.to_string())
}

fn service() -> Value {
    json!({"streamRef": {"name": "payments.requested"}, "handler": {"http": {"service": {"name": "charge-cards"}}}})
}

fn rendered(group: &ConsumerGroup, database: &StreamDatabase) -> (Option<Value>, Value) {
    let stream = stream(json!({}));
    let valid = valid(group, &stream).expect("valid");
    let image = Image {
        reference: "sqlstreams:test".into(),
        pull_policy: Some("IfNotPresent".into()),
    };
    let workers = workers(Plan {
        group,
        stream: &stream,
        database,
        valid: &valid,
        image: &image,
    });
    let value = |object| serde_json::to_value(object).expect("JSON");
    (
        workers
            .service_account
            .map(|it| serde_json::to_value(it).expect("JSON")),
        value(workers.deployment),
    )
}

#[test]
fn a_group_with_a_service_becomes_a_restricted_deployment_and_an_account_without_a_token() {
    let database = database(json!({"secretRef": {"name": "app"}}));
    let (account, deployment) = rendered(&group(service()), &database);
    assert_yaml_snapshot!(account);
    assert_yaml_snapshot!(deployment);
}

#[test]
fn every_setting_of_the_workers_reaches_the_pods() {
    let database = database(json!({
        "secretRef": {"name": "app"}, "workerSecretRef": {"name": "app-worker"}, "schema": "events",
        "tls": {"mode": "VerifyCA", "caSecretRef": {"name": "app-ca", "key": "authority.pem"}},
    }));
    let group = group(json!({
        "streamRef": {"name": "payments.requested"}, "groupName": "cards", "replicas": 3, "concurrency": 20,
        "retry": {"maxRetries": 5, "initialDelay": "2s", "maxDelay": "1m", "factor": 3, "jitter": "None"},
        "handler": {"timeout": "5s", "container": {
            "image": "shop/cards:1", "args": ["--fast"], "port": 9000, "path": "/messages",
            "env": [{"name": "MODE", "value": "test"}], "volumeMounts": [{"name": "scratch", "mountPath": "/tmp"}],
        }},
        "worker": {
            "resources": {"limits": {"memory": "128Mi"}}, "gracePeriod": "1m", "lease": "20s", "connections": 3,
            "serviceAccountName": "cards", "imagePullSecrets": [{"name": "registry"}], "podLabels": {"team": "payments"},
            "podAnnotations": {"note": "x"}, "nodeSelector": {"disk": "fast"},
            "tolerations": [{"key": "spot", "operator": "Exists"}], "volumes": [{"name": "scratch", "emptyDir": {}}],
        },
    }));
    let (account, deployment) = rendered(&group, &database);
    assert!(account.is_none(), "the group names an account of its own");
    assert_yaml_snapshot!(deployment);
}

#[test]
fn a_program_built_on_the_library_is_the_worker_and_is_told_by_variables() {
    let group = group(json!({
        "streamRef": {"name": "payments.requested"}, "retry": {"maxRetries": 5}, "handler": {"timeout": "5s", "sdk": {
            "image": "shop/cards:1", "args": ["--fast"], "env": [{"name": "SQLSTREAMS_LOG", "value": "debug"}],
            "resources": {"limits": {"memory": "64Mi"}},
        }},
    }));
    let (account, deployment) = rendered(&group, &database(json!({"secretRef": {"name": "app"}})));
    assert!(account.is_some());
    assert_yaml_snapshot!(deployment);
}

#[test]
fn kubernetes_finds_nothing_to_replace_in_what_a_worker_is_told() {
    let group = group(json!({
        "streamRef": {"name": "payments.requested"}, "groupName": "$(HOME)",
        "handler": {"http": {"service": {"name": "x"}, "headers": [{"name": "X-A", "value": "pa$$word"}]}},
    }));
    let (_, deployment) = rendered(&group, &database(json!({"secretRef": {"name": "app"}})));
    let arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"].to_string();
    assert!(arguments.contains("--group=$$(HOME)"), "{arguments}");
    assert!(arguments.contains("--handler-header=X-A=pa$$$$word"), "{arguments}");
}

#[test]
fn a_suspended_group_asks_for_no_workers() {
    let mut group = group(service());
    group.spec.suspend = true;
    let (_, deployment) = rendered(&group, &database(json!({"secretRef": {"name": "app"}})));
    assert_eq!(deployment["spec"]["replicas"], 0);
}

#[test]
fn retries_come_from_the_group_then_the_stream_then_the_handler() {
    let with = |handler: Value, retry: Value, of_stream: Value| {
        let group = group(json!({"streamRef": {"name": "s"}, "handler": handler, "retry": retry}));
        let retry = valid(&group, &stream(json!({"retry": of_stream})))
            .expect("valid")
            .retry;
        (
            retry.max_retries,
            retry.initial_delay.as_secs(),
            retry.max_delay.as_secs(),
        )
    };
    let service = json!({"http": {"service": {"name": "x"}}});
    let url = json!({"http": {"url": "https://example.com/hook"}});
    assert_eq!(with(service.clone(), json!({}), json!({})), (3, 1, 60));
    assert_eq!(
        with(url.clone(), json!({}), json!({})),
        (7, 1, 60),
        "a URL has 8 attempts"
    );
    assert_eq!(with(url, json!({}), json!({"maxRetries": 1})), (1, 1, 60));
    assert_eq!(
        with(
            service,
            json!({"maxRetries": 0, "maxDelay": "5s"}),
            json!({"maxRetries": 9, "initialDelay": "2s"})
        ),
        (0, 2, 5)
    );
}

#[test]
fn what_makes_no_sense_is_refused_by_field() {
    let cases = [
        (
            json!({"retry": {"initialDelay": "2m"}}),
            "retry.initialDelay (2m) must not be longer than retry.maxDelay (1m)",
        ),
        (
            json!({"handler": {"container": {"image": "x", "port": 8080}}}),
            "spec.handler.container.port must not be 8080",
        ),
        (
            json!({"handler": {"container": {"image": "x", "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}]}}}),
            "names the volume tmp, which is not in spec.worker.volumes",
        ),
        (
            json!({"worker": {"lease": "500ms"}}),
            "spec.worker.lease must be from 1s to 1h",
        ),
        (
            json!({"handler": {"http": {"url": "http://10.0.0.1/hook?token=abc"}}}),
            "spec.handler.http.url: the handler's URL leads to 10.0.0.1",
        ),
        (
            json!({"handler": {"http": {"url": "https://[bad?token=abc"}}}),
            "spec.handler.http.url: it is no URL",
        ),
        (
            json!({"handler": {"sdk": {"image": "x", "env": [{"name": "SQLSTREAMS_GROUP", "value": "other"}]}}}),
            "spec.handler.sdk.env sets SQLSTREAMS_GROUP",
        ),
    ];
    for (change, expected) in cases {
        let mut spec = service();
        spec.as_object_mut()
            .expect("an object")
            .extend(change.as_object().expect("an object").clone());
        let error = valid(&group(spec), &stream(json!({}))).expect_err("refused");
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("token"), "a URL may hold a secret: {error}");
    }
}

#[test]
fn a_status_names_the_condition_that_fails_and_leaves_later_ones_open() {
    let group = group(service());
    let problem = Problem::Reported {
        condition: PROVISIONED,
        reason: "Conflict",
        message: "taken".into(),
    };
    let status = compute(
        &group,
        &ConsumerGroupStatus::default(),
        &Facts::default(),
        Some(&problem),
    );
    let found: Vec<_> = status
        .conditions
        .iter()
        .map(|it| (it.type_.as_str(), it.status.as_str(), it.reason.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            (READY, "False", "Conflict"),
            ("DatabaseReachable", "True", "Connected"),
            (PROVISIONED, "False", "Conflict"),
            (WORKERS_AVAILABLE, "Unknown", "Conflict"),
        ]
    );
}

#[test]
fn a_status_that_is_computed_again_is_the_same_and_leaves_the_numbers_alone() {
    let group = group(service());
    let first = compute(&group, &ConsumerGroupStatus::default(), &Facts::default(), None);
    let mut seen = first.clone();
    seen.dead = Some(7);
    let mut foreign = first.conditions[0].clone();
    foreign.type_ = NO_DEAD_LETTERS.into();
    seen.conditions.insert(0, foreign);
    let second = compute(&group, &seen, &Facts::default(), None);
    assert_eq!(first, second, "lastTransitionTime did not move");
    assert!(is_written(&seen, &second), "so nothing is written");
    assert_eq!(second.dead, None);
}
