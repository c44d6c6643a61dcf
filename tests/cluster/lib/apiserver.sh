# shellcheck shell=bash
# The lighter half: etcd and kube-apiserver on loopback, without a node. Needs no
# root. No controllers run: a Deployment makes no pods, and a deleted namespace
# stays in Terminating.

apiserver_healthy() {
  local state="$state_root/$1"
  process_alive "$state/etcd.process" >/dev/null && process_alive "$state/apiserver.process" >/dev/null &&
    [[ "$("$(<"$state/bin")/kubectl" --kubeconfig "$state/kubeconfig" --request-timeout=3s get --raw /readyz 2>/dev/null)" == ok ]]
}

# Below the range from which the kernel gives ports to outgoing connections.
free_port() {
  local port
  while :; do
    port=$((20000 + RANDOM % 12000))
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
  done
  printf '%s\n' "$port"
}

# Notes its own PID before it becomes the command, so that none gets lost when we
# are killed in between. Descriptor 9 is our lock.
spawn() { # STATE NAME COMMAND...
  local state="$1" name="$2"
  shift 2
  rm -f "$state/$name.process"
  # shellcheck disable=SC2016
  setsid bash -c 'source "$0/lib/common.sh"; source "$0/lib/processes.sh"
    process_remember "$1" $$ && shift && exec "$@"' \
    "$here" "$state/$name.process" "$@" </dev/null >>"$state/log/$name.log" 2>&1 9>&- &
}

apiserver_bin() {
  if [[ -n "${KUBEBUILDER_ASSETS:-}" ]]; then
    bin="$(realpath "$KUBEBUILDER_ASSETS")"
    build_is_complete "$bin" "${build_apiserver_set[@]}" ||
      die "KUBEBUILDER_ASSETS lacks one of ${build_apiserver_set[*]}: $KUBEBUILDER_ASSETS"
  else
    build_ensure apiserver
  fi
}

verb_apiserver-up() {
  check_name "${1:-}"
  check_state_root
  (($# == 1)) || usage_error "apiserver-up wants one NAME"
  local name="$1" state="$state_root/$1" kind bin began attempt
  have openssl || die "openssl is missing"
  if kind="$(provider_of "$name")" && [[ "$kind" != apiserver ]]; then
    die "$name is a cluster of kind $kind; choose another name"
  fi
  apiserver_bin
  lock_cluster "$name"
  if ! apiserver_healthy "$name"; then
    apiserver_clear "$name"
    trap 'status=$?; trap - EXIT; ((status == 0)) || { apiserver_clear "'"$name"'" && forget_cluster "'"$name"'"; }; exit $status' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    began="$(date +%s%N)"
    for attempt in 1 2 3; do # somebody else may take a port that was free
      apiserver_start "$name" && break
      ((attempt < 3)) || { tail -n 5 "$state"/log/*.log >&2; die "the API server did not start"; }
      apiserver_clear "$name"
    done
    trap - EXIT INT TERM HUP
    say "$name is ready after $((($(date +%s%N) - began) / 1000000)) ms"
  fi
  printf '%s\n' "$state/kubeconfig"
}

apiserver_start() {
  local name="$1" state="$state_root/$1" pki="$state_root/$1/pki" etcd_port peer_port port
  mkdir -p "$state/log"
  echo apiserver >"$state/kind"
  printf '%s\n' "$bin" >"$state/bin"
  etcd_port="$(free_port)" peer_port="$(free_port)" port="$(free_port)"
  spawn "$state" etcd "$bin/etcd" --data-dir="$state/etcd" --unsafe-no-fsync --log-level=warn \
    --listen-client-urls="http://127.0.0.1:$etcd_port" --advertise-client-urls="http://127.0.0.1:$etcd_port" \
    --listen-peer-urls="http://127.0.0.1:$peer_port" --initial-advertise-peer-urls="http://127.0.0.1:$peer_port" \
    --initial-cluster="default=http://127.0.0.1:$peer_port"
  pki_control_plane "$pki" "DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1"
  pki_kubeconfig "$state/kubeconfig" "https://127.0.0.1:$port" "$pki" admin "sqlstreams-$name"
  spawn "$state" apiserver "$bin/kube-apiserver" --etcd-servers="http://127.0.0.1:$etcd_port" \
    --bind-address=127.0.0.1 --secure-port="$port" --endpoint-reconciler-type=none \
    --authorization-mode=RBAC --disable-admission-plugins=ServiceAccount \
    --service-cluster-ip-range=10.96.0.0/16 --client-ca-file="$pki/ca.crt" \
    --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" \
    --service-account-issuer=https://kubernetes.default.svc.cluster.local \
    --service-account-key-file="$pki/service-account.pub" \
    --service-account-signing-key-file="$pki/service-account.key"
  wait_until 30 "the API server" apiserver_answers_or_died "$name" && apiserver_healthy "$name"
}

# Ends the wait early when one of the two is gone, e.g. for a port that was taken.
apiserver_answers_or_died() {
  apiserver_healthy "$1" && return
  local file
  for file in etcd apiserver; do
    [[ ! -s "$state_root/$1/$file.process" ]] || process_alive "$state_root/$1/$file.process" >/dev/null || return 0
  done
  return 1
}

apiserver_clear() {
  local state="$state_root/$1"
  [[ -d "$state" ]] || return 0
  process_end "$state/apiserver.process" "$state/etcd.process" || die "the processes of $1 do not end"
  rm -rf "$state"
}

apiserver_down() {
  lock_cluster "$1"
  apiserver_clear "$1"
}
