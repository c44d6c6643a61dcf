# shellcheck shell=bash
# Starting, checking and removing an embedded cluster. Everything of a cluster
# lies in its state folder or dies with process 1 of its namespaces.

require_root() {
  ((EUID == 0)) || die "an embedded cluster needs root (namespaces, mounts, cgroups): use sudo -E, or \
kind with Docker, or name an existing cluster with SQLSTREAMS_KUBECONFIG and SQLSTREAMS_CONTEXT"
}

check_state_outside_node() {
  local place
  for place in /run /var/run /var/lib /var/log /proc /sys; do
    [[ "$state_root/" != "$place/"* ]] || die "SQLSTREAMS_STATE must not lie under $place"
  done
}

embedded_pid() { process_alive "$state_root/$1/node"; }

embedded_kubectl() { # NAME ARGUMENTS...
  local state="$state_root/$1"
  shift
  "$(<"$state/bin")/kubectl" --kubeconfig "$state/kubeconfig" "$@"
}

embedded_node_ready() {
  [[ "$(embedded_kubectl "$1" --request-timeout=3s get node "$1" -o \
    'jsonpath={.status.conditions[?(@.type=="Ready")].status}/{.spec.taints}' 2>/dev/null)" == True/ ]]
}

# Asks the DNS Service from inside, so it proves kube-proxy and CoreDNS at once.
embedded_dns_works() {
  nsenter -t "$(embedded_pid "$1")" --net busybox nslookup \
    kubernetes.default.svc.cluster.local "$service_dns_ip"
}

embedded_default_account() {
  embedded_kubectl "$1" --request-timeout=3s get serviceaccount default
}

embedded_healthy() {
  embedded_pid "$1" >/dev/null && [[ -e "$state_root/$1/ready" ]] &&
    embedded_node_ready "$1" && embedded_dns_works "$1" >/dev/null 2>&1
}

embedded_up() {
  local name="$1" state="$state_root/$1" began bin
  require_root
  check_state_outside_node
  require_packages
  if embedded_healthy "$name"; then
    say "$name is running already"
    printf '%s\n' "$state/kubeconfig"
    return
  fi
  build_ensure all
  lock_cluster "$name"
  if embedded_healthy "$name"; then # another run was faster
    printf '%s\n' "$state/kubeconfig"
    return
  fi
  if [[ -e "$state" ]]; then
    say "clearing what is left of an earlier $name"
    embedded_clear "$name"
  fi

  # shellcheck disable=SC2064  # expand now
  trap "embedded_give_up '$name'" EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  began="$(date +%s%N)"
  say "starting $name"
  start_node "$name" "$bin"
  wait_until 60 "the API server" embedded_api_ready "$name" || embedded_fail "$name"
  embedded_kubectl "$name" create -f "$state/etc/bootstrap.yaml" >/dev/null
  load_busybox "$name" || embedded_fail "$name"
  wait_until 60 "the node to be Ready" embedded_node_ready "$name" || embedded_fail "$name"
  wait_until 30 "the cluster's DNS" embedded_dns_works "$name" || embedded_fail "$name"
  wait_until 30 "the default service account" embedded_default_account "$name" || embedded_fail "$name"
  touch "$state/ready"
  trap - EXIT INT TERM HUP
  say "$name is ready after $((($(date +%s%N) - began) / 1000000)) ms"
  printf '%s\n' "$state/kubeconfig"
}

embedded_give_up() {
  local status=$?
  trap - EXIT
  trap '' INT TERM HUP # a second Ctrl-C must not stop the cleaning
  say "cleaning up"
  embedded_clear "$1" && forget_cluster "$1"
  exit "$status"
}

start_node() {
  local name="$1" bin="$2" state="$state_root/$1"
  mkdir -p "$state"
  chmod 755 "$state_root" "$state"
  echo embedded >"$state/kind"
  printf '%s\n' "$bin" >"$state/bin"
  allot_index "$state"
  write_configuration "$name" "$state" "$bin"
  cgroup_make "$name"

  # Descriptor 9 is our lock; the node outlives us and must not keep it.
  setsid unshare --fork --pid --mount --net --uts --ipc \
    "$here/lib/embedded/node.sh" "$state" </dev/null >>"$state/log/node.log" 2>&1 9>&- &
  wait_until 10 "the node's first process" test -s "$state/node.pid" || embedded_fail "$name"
  process_remember "$state/node" "$(<"$state/node.pid")" || embedded_fail "$name"
  connect_node "$state" "$(<"$state/node.pid")"
}

embedded_api_ready() {
  [[ "$(embedded_kubectl "$1" --request-timeout=3s get --raw /readyz)" == ok ]]
}

# In containerd's own namespaces, so that it sees the mounts that it refers to.
embedded_ctr() { # NAME ARGUMENTS...
  local pid
  pid="$(embedded_pid "$1")" || die "$1 is not running"
  shift
  nsenter -t "$pid" --mount --pid --net ctr --address /run/containerd/containerd.sock -n k8s.io "$@"
}

load_busybox() {
  local archive
  archive="$(busybox_archive)"
  wait_until 20 containerd embedded_ctr "$1" version &&
    embedded_import "$1" <"$archive"
}

embedded_fail() {
  say "the last lines of its logs ($state_root/$1/log):"
  tail -n 5 "$state_root/$1"/log/*.log >&2 || true
  if [[ -n "${SQLSTREAMS_KEEP_FAILED:-}" ]]; then
    say "left as it is (SQLSTREAMS_KEEP_FAILED); remove it with: cluster down $1"
    trap - EXIT
  fi
  exit 1
}

# Ends and removes all of it. Idempotent, and works from any half-done state.
embedded_clear() {
  local name="$1" state="$state_root/$1" pid mount_point
  # A node that was started an instant ago has not been noted yet.
  if [[ ! -s "$state/node" && -s "$state/node.pid" ]]; then
    embedded_is_node "$(<"$state/node.pid")" "$state" && process_remember "$state/node" "$(<"$state/node.pid")" || true
  fi
  if pid="$(process_alive "$state/node")"; then
    end_visitors "$pid"
    kill -KILL "$pid"
    wait_until 30 "the processes of $name to end" process_gone "$state/node" || true
  fi
  disconnect_node "$state"
  cgroup_remove "$name"
  # Nothing should be mounted outside the node's own namespace; be sure.
  while read -r _ _ _ _ mount_point _; do
    [[ "$mount_point" != "$state/"* ]] || umount -l "$mount_point" || true
  done < <(tac /proc/self/mountinfo)
  rm -rf --one-file-system "$state"
}

embedded_is_node() { tr '\0' ' ' <"/proc/$1/cmdline" 2>/dev/null | grep -qF "node.sh $2"; }

# Commands of `cluster run` live in the network namespace but not in the PID one.
end_visitors() {
  local node="$1" net candidate visitors=()
  net="$(readlink "/proc/$node/ns/net")"
  [[ -n "$net" && "$net" != "$(readlink /proc/self/ns/net)" ]] || return 0
  for candidate in /proc/[0-9]*; do
    [[ "$(readlink "$candidate/ns/net" 2>/dev/null)" == "$net" ]] || continue
    [[ "$(readlink "$candidate/ns/pid" 2>/dev/null)" == "$(readlink /proc/self/ns/pid)" ]] || continue
    visitors+=("${candidate#/proc/}")
  done
  ((${#visitors[@]} == 0)) || kill -TERM "${visitors[@]}" 2>/dev/null || true
}
