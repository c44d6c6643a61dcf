# shellcheck shell=bash
# Our own single-node cluster, from sources, as root, without Docker.
for part in addresses cgroups config lifecycle images; do
  # shellcheck source=/dev/null
  source "$here/lib/embedded/$part.sh"
done
unset part

embedded_down() {
  local name="$1"
  require_root
  lock_cluster "$name"
  embedded_clear "$name"
}

# Runs a command where Services, pods and DNS names of the cluster are reachable.
embedded_run() {
  local name="$1" pid state="$state_root/$1"
  shift
  require_root
  pid="$(embedded_pid "$name")" || die "$name is not running"
  export KUBECONFIG="$state/kubeconfig" PATH="$PATH:$(<"$state/bin")"
  # Only resolv.conf differs from the machine's own files.
  exec nsenter -t "$pid" --net -- unshare --mount --propagation private -- sh -c '
    mount --bind "$0" "$(readlink -f /etc/resolv.conf)" && exec "$@"' "$state/etc/resolv.conf" "$@"
}
