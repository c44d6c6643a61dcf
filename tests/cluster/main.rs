//! The demo, end to end, on a cluster of its own: what people read on their screen, and what they
//! would try next. Everything is removed at the end, whatever happens.
//!
//! One test, for its parts build on each other; each part prints what it has shown.

mod demo;
mod table;

use std::time::{Duration, Instant};

use demo::{Demo, Outcome};
use table::Table;

const SYSTEM: &str = "sqlstreams-system";
const PAYMENTS: &str = "payments";

#[test]
fn the_demo_tells_its_story_and_what_it_suggests_works() -> Outcome {
    let demo = Demo::new();
    let began = Instant::now();
    let story = demo.up()?;
    shown(began, "make demo ends");

    the_screen_tells_what_is_dead_and_why(&demo, &story)?;
    shown(began, "the screen tells what is dead and why");
    prometheus_is_told_of_dead_letters(&demo)?;
    shown(began, "Prometheus is told of dead letters");
    every_example_is_accepted(&demo)?;
    shown(began, "every example is accepted");
    the_tables_hold_failures_only(&demo)?;
    shown(began, "the tables hold failures only");
    a_publisher_needs_two_rights_and_no_more(&demo)?;
    shown(began, "a publisher needs two rights and no more");
    no_log_shows_what_is_in_a_message(&demo)?;
    shown(began, "no log shows what is in a message");
    a_new_dead_letter_is_in_the_status_at_once(&demo)?;
    shown(began, "a new dead letter is in the status at once");
    scaling_and_editing_reach_the_workers(&demo)?;
    shown(began, "scaling and editing reach the workers");
    a_group_that_is_resumed_catches_up(&demo)?;
    shown(began, "a group that is resumed catches up");
    a_group_that_is_made_again_goes_on_where_it_was(&demo)?;
    shown(began, "a group that is made again goes on where it was");
    the_operator_works_with_roles_of_its_namespaces_alone(&demo)?;
    shown(began, "the operator works with Roles of its namespaces alone");
    uninstalling_the_operator_leaves_data_and_delivery(&demo)?;
    shown(began, "uninstalling the operator leaves data and delivery");
    the_demo_can_be_run_again(&demo)?;
    shown(began, "the demo can be run again");
    demo.down()?;
    shown(began, "make demo-down leaves nothing");
    Ok(())
}

fn shown(began: Instant, what: &str) {
    println!("shown after {} s: {what}", began.elapsed().as_secs());
}

fn the_screen_tells_what_is_dead_and_why(demo: &Demo, story: &str) -> Outcome {
    let last = story.trim_end().lines().last().unwrap_or_default();
    assert_eq!(last, format!("export KUBECONFIG={}", demo.kubeconfig()?));

    let streams = Table::find(story, "STREAM ID").ok_or("no table of streams")?;
    let stream = streams.row("stream.sqlstreams.io/payments.requested")?;
    for (column, value) in [
        ("STREAM ID", "1"),
        ("READY", "True"),
        ("RETENTION", "7d"),
        ("GROUPS", "4"),
        ("DEAD", "8"),
    ] {
        assert_eq!(stream.get(column)?, value, "{column}");
    }
    let groups = Table::find(story, "RETRYING").ok_or("no table of groups")?;
    for (name, replicas, lag, dead) in [
        ("charge-cards", "1", "0", "7"),
        ("fraud-screening", "1", "0", "1"),
        ("email-receipts", "1", "0", "0"),
        ("analytics", "0", "240", "0"),
    ] {
        let group = groups.row(&format!("consumergroup.sqlstreams.io/{name}"))?;
        for (column, value) in [
            ("STREAM", "payments.requested"),
            ("READY", "True"),
            ("REPLICAS", replicas),
            ("LAG", lag),
            ("RETRYING", "0"),
            ("DEAD", dead),
        ] {
            assert_eq!(group.get(column)?, value, "{name}: {column}");
        }
    }

    // The status of charge-cards, the triage of both groups, and the history of order-103.
    for text in [
        "retry policy: 3 retries, 1s to 4s",
        "Ready              True",
        "NoDeadLetters      False",
        "payment provider unreachable: connection to fjordpay timed out |     6 |",
        "card_stolen_4417 is reported stolen: order-145 must not be charged |     1 |",
        "screening rejected order-188: above the limit of mer_",
    ] {
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            squeezed(story).contains(&squeezed(text)),
            "the screen does not show: {text}"
        );
    }
    let attempts = |number| {
        story
            .lines()
            .filter(|line| line.starts_with("attempt ") && line.ends_with(&format!("| {number}")))
            .count()
    };
    for number in 1..=4 {
        assert_eq!(attempts(number), 1, "attempt {number} of order-103");
    }
    Ok(())
}

fn prometheus_is_told_of_dead_letters(demo: &Demo) -> Outcome {
    let path = format!("/api/v1/namespaces/{SYSTEM}/services/sqlstreams:http/proxy/metrics");
    let metrics = demo.kubectl(SYSTEM, &["get", "--raw", &path])?;
    let dead = |group: &str| {
        let mut lines = metrics
            .lines()
            .filter(|line| line.starts_with("sqlstreams_consumer_exceptions_dead{"));
        lines
            .find(|line| line.contains(&format!("group=\"{group}\"")))
            .and_then(|line| line.rsplit(' ').next())
    };
    assert_eq!(dead("charge-cards"), Some("7.0"), "{metrics}");
    assert_eq!(dead("email-receipts"), Some("0.0"), "{metrics}");
    Ok(())
}

fn every_example_is_accepted(demo: &Demo) -> Outcome {
    demo.kubectl(PAYMENTS, &["apply", "--dry-run=server", "--filename=examples"])?;
    Ok(())
}

fn the_tables_hold_failures_only(demo: &Demo) -> Outcome {
    let of_group = |name: &str| format!("SELECT id FROM sqlstreams.consumer_group_config WHERE name = '{name}'");
    let exceptions = |name: &str| {
        demo.sql(&format!(
            "SELECT count(*) FROM sqlstreams.exception_queue_1 WHERE consumer_group_id = ({})",
            of_group(name)
        ))
    };
    assert_eq!(exceptions("email-receipts")?, "0");
    assert_eq!(exceptions("analytics")?, "0");
    assert_eq!(exceptions("charge-cards")?, "7");

    let message = "SELECT payload ->> 'orderId' FROM sqlstreams.message_log_1 WHERE id = 3";
    assert_eq!(demo.sql(message)?, "order-103");
    let dead = "SELECT status, attempts FROM sqlstreams.exception_queue_1 WHERE message_id = 3";
    assert_eq!(demo.sql(dead)?, "dead|4");

    // order-127 failed once, and its success took the row away; the log of attempts has both.
    let attempts = "SELECT string_agg(l.status, ',' ORDER BY l.attempt) FROM sqlstreams.delivery_log_1 l \
                    JOIN sqlstreams.message_log_1 m ON m.id = l.message_id WHERE m.payload ->> 'orderId' = 'order-127'";
    assert_eq!(demo.sql(attempts)?, "failed,succeeded");
    Ok(())
}

fn a_publisher_needs_two_rights_and_no_more(demo: &Demo) -> Outcome {
    demo.superuser_sql("CREATE ROLE shop LOGIN")?;
    let publish = "SET ROLE shop; SELECT sqlstreams.publish('payments.requested', '{}')";
    assert!(demo.superuser_sql(publish).is_err(), "a stranger may publish");
    demo.superuser_sql("GRANT USAGE ON SCHEMA sqlstreams TO shop")?;
    assert!(
        demo.superuser_sql(publish).is_err(),
        "whoever may use the schema may publish"
    );
    demo.superuser_sql("GRANT INSERT (payload, key, headers) ON sqlstreams.message_log_1 TO shop")?;
    // Rolled back, for the groups count what is published.
    demo.superuser_sql(&format!(
        "BEGIN; {publish}; INSERT INTO sqlstreams.message_log_1 (payload) VALUES ('{{}}'); ROLLBACK"
    ))?;
    assert!(
        demo.superuser_sql("SET ROLE shop; SELECT count(*) FROM sqlstreams.message_log_1")
            .is_err()
    );
    Ok(())
}

fn no_log_shows_what_is_in_a_message(demo: &Demo) -> Outcome {
    let mut logs = demo.kubectl(SYSTEM, &["logs", "deployment/sqlstreams", "--tail=-1"])?;
    for worker in ["charge-cards-worker", "fraud-screening-worker"] {
        logs += &demo.kubectl(PAYMENTS, &["logs", &format!("deployment/{worker}"), "--tail=-1"])?;
    }
    assert!(logs.contains("dead"), "no log line tells of a dead letter");
    for content in ["cus_5811", "orderId", "2026-03-02T09:12:35Z"] {
        assert!(!logs.contains(content), "a log line shows {content}");
    }
    Ok(())
}

/// Publishes an order that fraud-screening rejects.
fn publish_rejected(demo: &Demo, order: &str) -> Outcome {
    demo.sql(&format!(
        r#"SELECT sqlstreams.publish('payments.requested', '{{"orderId": "{order}", "merchantId": "mer_01",
           "amount": 2000000, "currency": "EUR", "provider": "northbank", "card": "card_000000"}}')"#
    ))?;
    Ok(())
}

fn a_new_dead_letter_is_in_the_status_at_once(demo: &Demo) -> Outcome {
    publish_rejected(demo, "order-901")?;
    let began = Instant::now();
    demo.until(
        Duration::from_secs(10),
        "fraud-screening has a second dead letter",
        || Ok(demo.status("consumergroup/fraud-screening", "dead")? == "2"),
    )?;
    println!("  it took {} ms", began.elapsed().as_millis());
    Ok(())
}

fn scaling_and_editing_reach_the_workers(demo: &Demo) -> Outcome {
    demo.kubectl(PAYMENTS, &["scale", "consumergroup/email-receipts", "--replicas=2"])?;
    demo.until(Duration::from_secs(60), "two workers are ready", || {
        let ready = demo.status("deployment/email-receipts-worker", "readyReplicas")?;
        Ok(ready == "2" && demo.status("consumergroup/email-receipts", "readyReplicas")? == "2")
    })?;

    let patch = r#"{"spec": {"retry": {"maxRetries": 5}}}"#;
    demo.kubectl(
        PAYMENTS,
        &["patch", "consumergroup/charge-cards", "--type=merge", "--patch", patch],
    )?;
    demo.until(Duration::from_secs(60), "the new retry policy is in force", || {
        let arguments = demo.get(
            "deployment/charge-cards-worker",
            "{.spec.template.spec.containers[0].args}",
        )?;
        Ok(arguments.contains("--max-retries=5")
            && demo.status("consumergroup/charge-cards", "retryPolicy.maxRetries")? == "5")
    })?;
    demo.kubectl(
        PAYMENTS,
        &["rollout", "status", "deployment/charge-cards-worker", "--timeout=90s"],
    )?;

    // Somebody's own scaling of the Deployment does not last.
    demo.kubectl(PAYMENTS, &["scale", "deployment/email-receipts-worker", "--replicas=0"])?;
    demo.until(
        Duration::from_secs(90),
        "the Deployment is as the group says again",
        || Ok(demo.get("deployment/email-receipts-worker", "{.spec.replicas}")? == "2"),
    )?;
    demo.kubectl(PAYMENTS, &["scale", "consumergroup/email-receipts", "--replicas=1"])?;
    Ok(())
}

fn a_group_that_is_resumed_catches_up(demo: &Demo) -> Outcome {
    // Lag is refreshed every few seconds.
    demo.until(Duration::from_secs(15), "analytics waits for the new order too", || {
        Ok(demo.status("consumergroup/analytics", "lag")? == "241")
    })?;
    let patch = r#"{"spec": {"suspend": false}}"#;
    demo.kubectl(
        PAYMENTS,
        &["patch", "consumergroup/analytics", "--type=merge", "--patch", patch],
    )?;
    demo.until(Duration::from_secs(60), "analytics has no lag", || {
        Ok(demo.status("consumergroup/analytics", "lag")? == "0")
    })
}

fn a_group_that_is_made_again_goes_on_where_it_was(demo: &Demo) -> Outcome {
    let id = demo.status("consumergroup/charge-cards", "groupId")?;
    demo.kubectl(PAYMENTS, &["delete", "consumergroup/charge-cards", "--timeout=90s"])?;
    let owner = "SELECT owner_uid IS NULL FROM sqlstreams.consumer_group_config WHERE name = 'charge-cards'";
    assert_eq!(demo.sql(owner)?, "t");
    demo.apply_example()?;
    demo.wait_ready("consumergroup/charge-cards")?;
    assert_eq!(demo.status("consumergroup/charge-cards", "groupId")?, id);
    demo.until(Duration::from_secs(20), "its dead letters are counted again", || {
        Ok(demo.status("consumergroup/charge-cards", "dead")? == "7")
    })?;
    let deliveries = "SELECT count(*) FROM sqlstreams.delivery_log_1 WHERE message_id = 3";
    assert_eq!(demo.sql(deliveries)?, "4");
    Ok(())
}

fn the_operator_works_with_roles_of_its_namespaces_alone(demo: &Demo) -> Outcome {
    let id = demo.kubectl(
        SYSTEM,
        &["get", "namespace", "kube-system", "--output=jsonpath={.metadata.uid}"],
    )?;
    let cluster_id = format!("clusterId={id}");
    demo.helm(&[
        "upgrade",
        "sqlstreams",
        "charts/sqlstreams",
        "--namespace",
        SYSTEM,
        "--reuse-values",
        "--wait",
        "--timeout=2m",
        "--set",
        "watchNamespaces={payments}",
        "--set",
        &cluster_id,
    ])?;
    let roles = demo.kubectl(
        SYSTEM,
        &[
            "get",
            "clusterroles",
            "--selector=app.kubernetes.io/instance=sqlstreams",
            "--output=name",
        ],
    )?;
    assert_eq!(roles, "");
    demo.apply(
        "{apiVersion: sqlstreams.io/v1alpha1, kind: Stream, metadata: {name: refunds}, \
          spec: {databaseRef: {name: payments}, deletionPolicy: Delete}}",
    )?;
    demo.wait_ready("stream/refunds")?;
    demo.kubectl(PAYMENTS, &["get", "cronjob/refunds-retention"])?;
    demo.kubectl(PAYMENTS, &["delete", "stream/refunds", "--timeout=60s"])?;
    let tables = "SELECT count(*) FROM sqlstreams.stream_config WHERE name = 'refunds'";
    assert_eq!(demo.sql(tables)?, "0");
    let errors = demo.kubectl(SYSTEM, &["logs", "deployment/sqlstreams", "--tail=-1"])?;
    assert!(!errors.to_lowercase().contains("forbidden"), "{errors}");
    Ok(())
}

fn uninstalling_the_operator_leaves_data_and_delivery(demo: &Demo) -> Outcome {
    demo.helm(&[
        "uninstall",
        "sqlstreams",
        "sqlstreams-crds",
        "--namespace",
        SYSTEM,
        "--wait",
    ])?;
    demo.kubectl(
        PAYMENTS,
        &["get", "stream/payments.requested", "consumergroup/charge-cards"],
    )?;
    publish_rejected(demo, "order-902")?;
    demo.until(Duration::from_secs(30), "the worker goes on without an operator", || {
        let dead = "SELECT count(*) FROM sqlstreams.exception_queue_1 e JOIN sqlstreams.message_log_1 m ON m.id = e.message_id \
                    WHERE m.payload ->> 'orderId' = 'order-902' AND e.status = 'dead'";
        Ok(demo.sql(dead)? == "1")
    })
}

fn the_demo_can_be_run_again(demo: &Demo) -> Outcome {
    let began = Instant::now();
    let story = demo.up()?;
    assert!(
        began.elapsed() < Duration::from_secs(120),
        "it took {} s",
        began.elapsed().as_secs()
    );
    assert!(story.contains("they are there already"));
    assert_eq!(demo.sql("SELECT count(*) FROM sqlstreams.message_log_1")?, "242");
    Ok(())
}
