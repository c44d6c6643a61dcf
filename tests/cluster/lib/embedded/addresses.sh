# shellcheck shell=bash
# Allots each cluster a /30 of a pool: .1 of it is the host, .2 the node. Pod
# and service ranges are the same in every cluster, for each has a network
# namespace of its own and the host gets no route to them.

node_pool="${SQLSTREAMS_NODE_POOL:-10.231}" # the first two octets of a /16
service_cidr=10.96.0.0/16
service_api_ip=10.96.0.1
service_dns_ip=10.96.0.10
pod_cidr=10.244.0.0/16

address_of() { # INDEX OFFSET
  printf '%s.%d.%d\n' "$node_pool" $(($1 / 64)) $(($1 % 64 * 4 + $2))
}

# Takes the lowest index that neither another cluster nor the machine uses.
allot_index() {
  local state="$1" index file taken=' '
  lock "$state_root/.pool.lock" 8
  for file in "$state_root"/*/index; do
    [[ -e "$file" ]] && taken+="$(<"$file") "
  done
  for ((index = 0; index < 4096; index++)); do
    [[ "$taken" != *" $index "* ]] || continue
    ! ip link show "$(link_name "$index")" >/dev/null 2>&1 || continue
    ! route_in_use "$(address_of "$index" 2)" || continue
    printf '%s\n' "$index" >"$state/index"
    unlock 8
    return
  done
  die "no free address range left in $node_pool.0.0/16; set SQLSTREAMS_NODE_POOL"
}

# A route narrower than /8 (the default, or a VPN's halves of it, are wider)
# means that somebody else has the range.
route_in_use() {
  ip -4 route show match "$1" | grep -vqE '^(default|[0-9.]+/[0-7] )'
}

link_name() { printf 'sqls%d\n' "$1"; }

# The node's end is made inside its namespace, so nothing is left when it dies.
connect_node() {
  local state="$1" pid="$2" index link
  index="$(<"$state/index")"
  link="$(link_name "$index")"
  ip link add "$link" type veth peer name eth0 netns "$pid"
  ip address add "$(address_of "$index" 1)/30" dev "$link"
  ip link set "$link" up
}

disconnect_node() {
  local state="$1" link
  [[ -s "$state/index" ]] || return 0
  link="$(link_name "$(<"$state/index")")"
  ip link del "$link" 2>/dev/null || true
}
