# shellcheck shell=bash
# How the demo speaks, and the cluster that it speaks to.

# What tests/cluster knows: which kind of cluster, which tool for images, where
# things lie. Its verbs are called as a command.
for part in common image provider; do
  # shellcheck source=/dev/null
  here="$root/tests/cluster" source "$root/tests/cluster/lib/$part.sh"
done
unset part here

name="${SQLSTREAMS_DEMO_NAME:-demo}"
check_name "$name"
system=sqlstreams-system # namespace of the operator
namespace=payments       # namespace of the example
steps=8
step=0
began_at=$SECONDS

# Without our lock: a cluster outlives us.
cluster() { "$root/tests/cluster/cluster" "$@" 5>&-; }

# A heading with the time that has passed.
step() {
  step=$((step + 1))
  printf '\n[%d/%d] %s (%s)\n' "$step" "$steps" "$1" "$(elapsed)"
}
say() { printf '      %s\n' "$*"; }
indent() { sed -u 's/^/      /'; }
# What a verb of tests/cluster says; what it answers, a path, is left out.
relay() { sed -un 's/^cluster: /      /p'; }
heading() { printf '\n== %s\n' "$*"; }
die() {
  printf '\ndemo: error: %s\n' "$*" >&2
  exit 1
}

elapsed() {
  local seconds=$((SECONDS - began_at))
  printf '%d:%02d' $((seconds / 60)) $((seconds % 60))
}

# say_change TEXT: says it unless it was the last thing said.
last_said=
say_change() {
  [[ "$1" != "$last_said" ]] || return 0
  last_said="$1"
  say "$1"
}

# One demo of a name at a time.
hold_lock() {
  mkdir -p "$cache_root"
  exec 5>>"$cache_root/demo-$name.lock"
  flock -n 5 || die "another run of the demo \"$name\" is under way"
}

interrupted() {
  printf '\ndemo: stopped. make demo goes on from here, make demo-down removes everything.\n' >&2
  exit 130
}

# Sets KUBECONFIG and PATH to the demo's cluster and tools, and to nothing else.
use_cluster() {
  provider="$(provider_of "$name")" || die "there is no demo \"$name\"; start it with: make demo"
  KUBECONFIG="$state_root/$name/kubeconfig"
  PATH="$(cluster bin):$PATH"
  export KUBECONFIG PATH
}
