# shellcheck shell=bash
# One cgroup per cluster, in every hierarchy of version 1 or in the single one
# of version 2. A kubelet removes pod cgroups that it does not know, so two
# kubelets must not share a root.

cgroup_name() { printf 'sqlstreams-%s\n' "$1"; }

cgroup_is_v2() { [[ "$(stat -f -c %T /sys/fs/cgroup)" == cgroup2fs ]]; }

cgroup_make() {
  if cgroup_is_v2; then cgroup_make_v2 "$1"; else cgroup_make_v1 "$1"; fi
}

cgroup_make_v1() {
  local hierarchy dir
  for hierarchy in /sys/fs/cgroup/*/; do
    [[ -e "$hierarchy/cgroup.procs" && ! -L "${hierarchy%/}" ]] || continue
    dir="$hierarchy$(cgroup_name "$1")"
    mkdir -p "$dir"
    # A new cpuset is empty, and nothing can run in it.
    if [[ -e "$hierarchy/cpuset.cpus" ]]; then
      cat "$hierarchy/cpuset.cpus" >"$dir/cpuset.cpus"
      cat "$hierarchy/cpuset.mems" >"$dir/cpuset.mems"
    fi
  done
}

cgroup_make_v2() {
  local root=/sys/fs/cgroup dir
  dir="$root/$(cgroup_name "$1")"
  cgroup_delegate "$root" || cgroup_vacate_root || true
  cgroup_delegate "$root" ||
    die "the cgroup controllers cpu, memory and pids cannot be delegated from $root"
  mkdir -p "$dir"
  cgroup_delegate "$dir" || die "the cgroup controllers cannot be delegated from $dir"
}

# The kubelet wants each controller that the root has; only three are a must.
cgroup_delegate() {
  local controller
  for controller in $(<"$1/cgroup.controllers"); do
    case "$controller" in
      cpu | memory | pids) echo "+$controller" >"$1/cgroup.subtree_control" || return 1 ;;
      cpuset | io | hugetlb) echo "+$controller" >"$1/cgroup.subtree_control" || true ;;
    esac
  done 2>/dev/null
}

# Inside a container with a private cgroup namespace the root holds processes,
# and version 2 delegates from a group without processes only. Docker-in-Docker
# moves them aside in the same way. The real root has no cgroup.type.
cgroup_vacate_root() {
  local root=/sys/fs/cgroup pid
  [[ -e "$root/cgroup.type" ]] || return 1
  say "moving this container's processes into the cgroup $root/init, so that pods can have theirs"
  mkdir -p "$root/init"
  while read -r pid; do
    echo "$pid" >"$root/init/cgroup.procs" || true
  done <"$root/cgroup.procs" 2>/dev/null
}

# To be called when the processes are gone; the kernel may take a moment.
cgroup_remove() {
  local name dir
  name="$(cgroup_name "$1")"
  for dir in /sys/fs/cgroup/"$name" /sys/fs/cgroup/*/"$name"; do
    [[ -d "$dir" ]] || continue
    wait_until 10 "the cgroup $dir to become empty" cgroup_rmdir "$dir" || true
  done
}

cgroup_rmdir() {
  find "$1" -depth -type d -exec rmdir {} + 2>/dev/null
  [[ ! -d "$1" ]]
}
