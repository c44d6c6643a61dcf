# shellcheck shell=bash
# Publishing, waiting until every order has had its fate, and showing it.

# Number of messages in the log; 0 where there is no log.
published() {
  local id
  id="$(stream_id)"
  [[ -n "$id" ]] || { echo 0; return; }
  in_postgres --dbname=payments --tuples-only --no-align --command="SELECT count(*) FROM sqlstreams.message_log_$id"
}

stream_id() { in_example get stream payments.requested -o jsonpath='{.status.streamId}'; }

publish_orders() {
  step "Publishing 240 orders"
  # Also when Postgres lost its data with its pod.
  if [[ "${SQLSTREAMS_DEMO_PUBLISH:-}" == again || "$(published)" == 0 ]]; then
    in_example delete job publish-orders --ignore-not-found >/dev/null
  elif [[ -n "$(in_example get job publish-orders --ignore-not-found -o jsonpath='{.status.succeeded}')" ]]; then
    say "they are there already (SQLSTREAMS_DEMO_PUBLISH=again publishes them once more)"
    return
  fi
  in_example create configmap orders --from-file="$root/examples/payments/messages.jsonl" --dry-run=client -o yaml |
    in_example apply -f - >/dev/null
  sed "s|SQLSTREAMS_IMAGE|$image|" "$demo_dir/manifests/publish.yaml" | in_example apply -f - | indent
  in_example wait --for=condition=Complete --timeout=60s job/publish-orders >/dev/null || {
    in_example logs job/publish-orders >&2 || true
    not_ready
  }
  in_example logs job/publish-orders | tail -n 1 | indent
}

# number GROUP FIELD of its status; empty where it is not known yet.
number() { in_example get consumergroup "$1" -o "jsonpath={.status.$2}"; }

# Until every order has had its fate by the tables, and the status says the same:
# its numbers are a few seconds old at times.
await_story() {
  step "Waiting until every order has been charged, retried or given up"
  local deadline=$((SECONDS + 120)) tables status
  while :; do
    tables="$(query progress.sql | run_query --tuples-only --no-align)"
    status="$(in_example get consumergroups -o go-template-file="$demo_dir/progress.gotemplate")"
    say_change "$(paste -sd ';' <<<"$status" | sed 's/;/; /g')"
    [[ "$status" == "$tables" ]] && ! grep -v '^analytics ' <<<"$tables" | grep -qv ' lag 0, retrying 0, dead ' && return
    ((SECONDS < deadline)) || not_ready
    sleep 0.5
  done
}

# The queries name the tables of stream 1, which is what a new database gives.
query() { # FILE [SED_EXPRESSION]
  local id
  id="$(stream_id)"
  sed -E "s/_1\b/_$id/; s/stream_id = 1\b/stream_id = $id/; ${2:-}" "$demo_dir/$1"
}

run_query() {
  in_postgres --dbname=payments --pset=null='' "$@"
}

tell_story() {
  heading "kubectl get streams,consumergroups"
  in_example get streams,consumergroups

  heading "The status of charge-cards"
  in_example get consumergroup charge-cards -o go-template-file="$demo_dir/status.gotemplate"

  heading "What is dying, and why? (fraud-screening)"
  query triage.sql | run_query --echo-queries
  heading "The same for charge-cards: one provider is down, and one card is stolen"
  query triage.sql 's/fraud-screening/charge-cards/' | run_query
  heading "order-103 is message 3: its four attempts"
  query history.sql "s/^(WHERE .*)$/\1 AND m.payload->>'orderId' = 'order-103'/" | run_query --expanded
}

what_next() {
  cat <<EOF

== What to try next
  The provider is back (what is published from now on is charged):
    kubectl -n $namespace set env deployment/charge-cards UNREACHABLE_PROVIDER=none
    SQLSTREAMS_DEMO_PUBLISH=again make demo
  More workers:
    kubectl -n $namespace scale consumergroup/charge-cards --replicas=3
  Let analytics catch up with its $(number analytics lag) messages:
    kubectl -n $namespace patch consumergroup analytics --type=merge -p '{"spec":{"suspend":false}}'
  Publish one of your own, in a transaction of yours:
    kubectl -n $namespace exec -it deployment/postgres -- psql -U postgres payments
    SELECT sqlstreams.publish('payments.requested', '{"orderId": "order-341", "merchantId": "mer_11", "customerId": "cus_7262", "amount": 2490, "currency": "USD", "provider": "northbank", "card": "card_e990d3", "requestedAt": "2026-03-02T09:12:16Z"}');
  What a resource may say, and why it is as it is:
    kubectl explain consumergroup.spec
    kubectl -n $namespace describe consumergroup charge-cards
  Remove everything:
    make demo-down

It took $(elapsed). kubectl and helm that fit are in $(cluster bin 2>/dev/null).
export KUBECONFIG=$KUBECONFIG
EOF
}
