# shellcheck shell=bash
# Which kind of cluster, and the verbs that are the same for all kinds.

# For a new cluster: what is asked for, then what is there.
provider_choice() {
  local asked="${SQLSTREAMS_PROVIDER:-}"
  case "$asked" in
    existing | kind | embedded) printf '%s\n' "$asked"; return ;;
    '') ;;
    *) die "SQLSTREAMS_PROVIDER is existing, kind or embedded, not '$asked'" ;;
  esac
  if [[ -n "${SQLSTREAMS_KUBECONFIG:-}${SQLSTREAMS_CONTEXT:-}" ]]; then
    echo existing
  elif have kind && docker_answers; then
    echo kind
  else
    echo embedded
  fi
}

# For one that was started already.
provider_of() {
  local file="$state_root/$1/kind"
  if [[ -s "$file" ]]; then cat "$file"; else return 1; fi
}

need_cluster() {
  provider_of "$1" || die "there is no cluster $1; start it with: cluster up $1"
}

verb_up() {
  check_name "${1:-}"
  check_state_root
  (($# == 1)) || usage_error "up wants one NAME"
  local kind chosen
  chosen="$(provider_choice)"
  if kind="$(provider_of "$1")" && [[ "$kind" != "$chosen" ]]; then
    die "$1 is of kind $kind, not $chosen; remove it first: cluster down $1"
  fi
  "${chosen}_up" "$1"
}

verb_down() {
  check_name "${1:-}"
  (($# == 1)) || usage_error "down wants one NAME"
  local kind
  # Without a note of its kind only our own may have left something.
  if ! kind="$(provider_of "$1")"; then
    if [[ ! -e "$state_root/$1" ]]; then return 0; fi
    kind=embedded
  fi
  "${kind}_down" "$1"
  forget_cluster "$1"
}

verb_kubeconfig() {
  check_name "${1:-}"
  need_cluster "$1" >/dev/null
  printf '%s\n' "$state_root/$1/kubeconfig"
}

verb_load() {
  check_name "${1:-}"
  (($# >= 2)) || usage_error "load wants NAME TAG..."
  local kind
  kind="$(need_cluster "$1")"
  [[ "$kind" != apiserver ]] || die "$1 has no node to load images into"
  "${kind}_load" "$@"
}

verb_run() {
  check_name "${1:-}"
  local name="$1" kind
  shift
  [[ "${1:-}" != -- ]] || shift
  (($#)) || usage_error "run wants NAME -- COMMAND..."
  kind="$(need_cluster "$name")"
  [[ "$kind" != apiserver ]] || die "$name has no network of its own"
  "${kind}_run" "$name" "$@"
}

verb_list() {
  local dir name kind status
  printf '%-21s %-10s %-8s %s\n' NAME KIND STATUS KUBECONFIG
  for dir in "$state_root"/*/; do
    [[ -d "$dir" ]] || continue
    name="$(basename "$dir")"
    kind="$(provider_of "$name")" || kind=unknown
    status=stale
    ! declare -F "${kind}_healthy" >/dev/null || ! "${kind}_healthy" "$name" || status=ready
    printf '%-21s %-10s %-8s %s\n' "$name" "$kind" "$status" "$state_root/$name/kubeconfig"
  done
}

# kubectl and helm: our own where Kubernetes is built anyway, else the person's.
tools_dir() {
  local own
  own="$(bin_dir)"
  if build_is_complete "$own" kubectl helm || ! have kubectl || ! have helm || [[ "$(provider_choice)" == embedded ]]; then
    printf '%s\n' "$own"
  else
    printf '%s\n' "$cache_root/tools"
  fi
}

tools_ensure() {
  local dir bin
  dir="$(tools_dir)"
  if [[ "$dir" == "$cache_root/tools" ]]; then
    mkdir -p "$dir"
    ln -sf "$(command -v kubectl)" "$(command -v helm)" "$dir/"
  else
    build_ensure tools
  fi
}

verb_bin() {
  tools_ensure
  tools_dir
}
