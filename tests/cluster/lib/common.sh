# shellcheck shell=bash
# What every verb uses: where things lie, how the tool speaks, locks, waiting.

cache_root="${SQLSTREAMS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sqlstreams}"
if ((EUID == 0)); then
  state_root="${SQLSTREAMS_STATE:-/var/tmp/sqlstreams-clusters}"
else
  state_root="${SQLSTREAMS_STATE:-/var/tmp/sqlstreams-clusters-$EUID}"
fi
cache_root="$(realpath -m "$cache_root")"
state_root="$(realpath -m "$state_root")"

# Progress goes to stderr; stdout carries results only (a path as last line).
say() { printf 'cluster: %s\n' "$*" >&2; }
die() { printf 'cluster: error: %s\n' "$*" >&2; exit 1; }
usage_error() { printf 'cluster: %s (see: cluster --help)\n' "$*" >&2; exit 2; }

have() { command -v "$1" >/dev/null 2>&1; }

# Debian keeps these out of an ordinary user's PATH.
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

# A cluster's name becomes a folder, a network namespace and a socket path
# (at most 107 bytes), so it is short and plain.
check_name() {
  [[ "${1:-}" =~ ^[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?$ ]] ||
    usage_error "a cluster's name is 1 to 20 of a-z, 0-9 and -, not '${1:-}'"
}

check_state_root() {
  ((${#state_root} <= 50)) ||
    die "SQLSTREAMS_STATE is too long for unix sockets below it: $state_root"
}

# wait_until SECONDS WHAT COMMAND...: polls; fails with WHAT when time is up.
wait_until() {
  local deadline=$((SECONDS + $1)) what="$2"
  shift 2
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < deadline)) || { say "gave up waiting for: $what"; return 1; }
    sleep 0.1
  done
}

# lock FILE FD: holds an exclusive lock until this process ends or the descriptor
# is closed; children that outlive us are started with it closed. The file may
# be removed by its holder, so whoever waited for it looks whether it is still
# the same.
lock() {
  local file="$1" fd="$2"
  while :; do
    mkdir -p "$(dirname "$file")"
    eval "exec $fd>>\"\$file\"" || continue
    if ! flock -n "$fd"; then
      say "waiting for another run that holds $file"
      flock "$fd"
    fi
    [[ ! "/proc/self/fd/$fd" -ef "$file" ]] || break
  done
}
unlock() { eval "exec $1>&-"; }

# The lock of one cluster, always on descriptor 9.
lock_cluster() { lock "$state_root/.$1.lock" 9; }

# To be called by the holder when nothing else is left of the cluster.
forget_cluster() {
  rm -f "$state_root/.$1.lock"
  [[ -n "$(find "$state_root" -mindepth 1 -maxdepth 1 ! -name .pool.lock)" ]] ||
    { rm -f "$state_root/.pool.lock" && rmdir "$state_root"; } 2>/dev/null || true
}
