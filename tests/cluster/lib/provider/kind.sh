# shellcheck shell=bash
# A cluster of kind (https://kind.sigs.k8s.io) in a Docker engine.
# Not exercised where this was written: no Docker engine is to be had there.

kind_node_image="${SQLSTREAMS_KIND_IMAGE:-kindest/node:v1.34.0}"

kind_check() {
  have kind || die "kind is not installed (https://kind.sigs.k8s.io)"
  docker_answers || die "no Docker engine answers; kind needs one"
}

kind_name() { printf 'sqlstreams-%s\n' "$1"; }
kind_exists() { kind get clusters 2>/dev/null | grep -qx "$(kind_name "$1")"; }

kind_kubectl() { # NAME ARGUMENTS...
  local name="$1"
  shift
  "$(tools_dir)/kubectl" --kubeconfig "$state_root/$name/kubeconfig" "$@"
}

kind_healthy() {
  kind_exists "$1" && [[ -s "$state_root/$1/kubeconfig" ]] &&
    kind_kubectl "$1" --request-timeout=5s wait --for=condition=Ready node --all --timeout=5s >/dev/null 2>&1
}

kind_up() {
  local name="$1" state="$state_root/$1"
  kind_check
  tools_ensure
  lock_cluster "$name"
  if ! kind_healthy "$name"; then
    mkdir -p "$state"
    echo kind >"$state/kind"
    kind_exists "$name" && kind delete cluster --name "$(kind_name "$name")" >&2 9>&-
    trap 'status=$?; trap - EXIT; ((status == 0)) || { kind_clear "'"$name"'" && forget_cluster "'"$name"'"; }; exit $status' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    kind create cluster --name "$(kind_name "$name")" --image "$kind_node_image" \
      --kubeconfig "$state/kubeconfig" --wait 180s >&2 9>&-
    trap - EXIT INT TERM HUP
  fi
  printf '%s\n' "$state/kubeconfig"
}

kind_clear() {
  ! kind_exists "$1" || kind delete cluster --name "$(kind_name "$1")" --kubeconfig "$state_root/$1/kubeconfig" >&2
  rm -rf "${state_root:?}/$1"
}

kind_down() {
  kind_check
  lock_cluster "$1"
  kind_clear "$1"
}

# kind skips by itself what the node has already.
kind_load() {
  local name="$1"
  shift
  kind_check
  kind load docker-image --name "$(kind_name "$name")" "$@" >&2
}

# Enters the network namespace of the node's container, which needs root.
kind_run() {
  local name="$1" pid
  shift
  ((EUID == 0)) || die "cluster run enters a network namespace, which needs root: use sudo -E"
  pid="$(docker inspect --format '{{.State.Pid}}' "$(kind_name "$name")-control-plane")"
  export KUBECONFIG="$state_root/$name/kubeconfig" PATH="$PATH:$(tools_dir)"
  printf 'nameserver 10.96.0.10\nsearch svc.cluster.local cluster.local\noptions ndots:5\n' \
    >"$state_root/$name/resolv.conf"
  exec nsenter -t "$pid" --net -- unshare --mount --propagation private -- sh -c '
    mount --bind "$0" "$(readlink -f /etc/resolv.conf)" && exec "$@"' "$state_root/$name/resolv.conf" "$@"
}
