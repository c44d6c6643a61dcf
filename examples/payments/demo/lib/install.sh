# shellcheck shell=bash
# Postgres, the services, the operator and the example's resources.

demo_label=sqlstreams.io/demo # on namespaces that the demo made

# make_namespace NAME: under the strictest Pod Security level. One that somebody
# else made is left alone.
make_namespace() {
  local there
  there="$(kubectl get namespace "$1" --ignore-not-found -o jsonpath="{.metadata.name}/{.metadata.labels['${demo_label//./\\.}']}")"
  case "$there" in
    '') kubectl create namespace "$1" >/dev/null ;;
    "$1/$name") ;;
    *) die "the namespace $1 is there already and was not made by this demo" ;;
  esac
  kubectl label --overwrite namespace "$1" "$demo_label=$name" \
    pod-security.kubernetes.io/enforce=restricted pod-security.kubernetes.io/warn=restricted >/dev/null
}

in_example() { kubectl --namespace "$namespace" "$@"; }

install_operator() {
  step "Installing Postgres, the services and the operator"
  make_namespace "$system"
  make_namespace "$namespace"
  make_secrets
  sed "s|POSTGRES_IMAGE|$postgres_image|" "$demo_dir/manifests/postgres.yaml" | in_example apply -f - | indent
  local role
  for role in charge-cards fraud-screening email-receipts analytics; do
    echo ---
    sed "s|ROLE|$role|; s|HANDLER_IMAGE|$handler_image|" "$demo_dir/manifests/service.yaml"
  done | in_example apply -f - | indent

  local repository="${image%:*}"
  [[ "$image" != *@* ]] || die "SQLSTREAMS_IMAGE must have a tag rather than a digest"
  helm_install sqlstreams-crds
  helm_install sqlstreams --set-string "image.repository=$repository" --set-string "image.tag=${image##*:}" \
    --set "logFormat=text"
  in_example wait --for=condition=Available deployment --all --timeout=180s >/dev/null || not_ready
  kubectl --namespace "$system" rollout status deployment/sqlstreams --timeout=120s >/dev/null || not_ready
  make_database
}

helm_install() { # CHART ARGUMENTS...
  local chart="$1"
  shift
  # Helm refuses to touch a release that a run was cut off in the middle of.
  if [[ -n "$(helm list --namespace "$system" --pending --short --filter "^$chart\$")" ]]; then
    helm uninstall "$chart" --namespace "$system" --wait >/dev/null
  fi
  helm upgrade --install "$chart" "$root/charts/$chart" --namespace "$system" "$@" >/dev/null ||
    die "helm could not install $chart"
  say "helm release $chart is installed"
}

# The keys are those that CloudNativePG writes.
make_secrets() {
  local password
  if [[ -z "$(in_example get secret postgres-superuser --ignore-not-found -o name)" ]]; then
    password="$(random_password)"
    secret_from postgres-superuser "password=$password"
  fi
  if [[ -z "$(in_example get secret payments-app --ignore-not-found -o name)" ]]; then
    password="$(random_password)"
    secret_from payments-app username=payments user=payments "password=$password" dbname=payments \
      "host=postgres.$namespace" port=5432 \
      "uri=postgresql://payments:$password@postgres.$namespace:5432/payments"
  fi
}

random_password() { od -An -N16 -tx1 /dev/urandom | tr -d ' \n'; }

# Over a file descriptor, for everybody can read the arguments of a process.
secret_from() { # NAME KEY=VALUE...
  local secret="$1"
  shift
  in_example create secret generic "$secret" --from-env-file=<(printf '%s\n' "$@") >/dev/null
}

in_postgres() { in_example exec -i deployment/postgres -- psql --username=postgres --no-psqlrc --quiet --set=ON_ERROR_STOP=1 "$@"; }

# The operator gets a login that owns its database and nothing more.
make_database() {
  local password
  password="$(in_example get secret payments-app -o jsonpath='{.data.password}' | base64 -d)"
  in_postgres --dbname=postgres >/dev/null <<EOF
SELECT 'CREATE ROLE payments LOGIN' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'payments') \gexec
ALTER ROLE payments PASSWORD '$password';
SELECT 'CREATE DATABASE payments OWNER payments'
WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = 'payments') \gexec
EOF
}

apply_example() {
  step "Applying the StreamDatabase, the Stream and the ConsumerGroups"
  in_example apply -f "$root/examples/payments" | indent
  in_example wait --for=condition=Ready --timeout=120s >/dev/null \
    streamdatabase/payments stream/payments.requested || not_ready
  in_example wait --for=condition=Ready --timeout=120s consumergroup --all >/dev/null || not_ready
  say "all are Ready"
}

# What somebody needs who has to find out why.
not_ready() {
  {
    heading "What is there"
    kubectl get pods -n "$system" || true
    in_example get pods,streamdatabases,streams,consumergroups -o wide || true
    heading "Conditions that do not hold"
    in_example get streamdatabases,streams,consumergroups -o go-template-file="$demo_dir/conditions.gotemplate" || true
    heading "The operator's last words"
    kubectl logs -n "$system" deployment/sqlstreams --tail=20 || true
  } >&2
  die "it does not get ready; the cluster is left as it is (KUBECONFIG=$KUBECONFIG)"
}
