# shellcheck shell=bash
# Builds Kubernetes, etcd, CoreDNS and helm from Go modules into the cache.

declare -A build_packages=(
  [etcd]=go.etcd.io/etcd/server/v3
  [kube-apiserver]=k8s.io/kubernetes/cmd/kube-apiserver
  [kubectl]=k8s.io/kubernetes/cmd/kubectl
  [kube-controller-manager]=k8s.io/kubernetes/cmd/kube-controller-manager
  [kube-scheduler]=k8s.io/kubernetes/cmd/kube-scheduler
  [kubelet]=k8s.io/kubernetes/cmd/kubelet
  [kube-proxy]=k8s.io/kubernetes/cmd/kube-proxy
  [helm]=helm.sh/helm/v3/cmd/helm
  [coredns]=./coredns
)
build_apiserver_set=(etcd kube-apiserver kubectl)
build_tools_set=(kubectl helm)
build_all_set=(etcd kube-apiserver kubectl kube-controller-manager kube-scheduler kubelet kube-proxy coredns helm)

# Keyed by everything that decides what the binaries are.
build_generation() {
  (cd "$here" && cat go.mod go.sum coredns/main.go | sha256sum | cut -c1-16)
}
bin_dir() { printf '%s/kubernetes/%s/bin\n' "$cache_root" "$(build_generation)"; }

# A binary is moved into bin/ only when it is whole, so its presence is enough.
build_is_complete() {
  local bin="$1" name
  shift
  for name in "$@"; do [[ -x "$bin/$name" ]] || return 1; done
}

check_go() {
  have go || die "Go 1.25 or newer is needed to build Kubernetes (https://go.dev/dl/)"
  local version
  version="$(cd "$here" && go env GOVERSION 2>/dev/null)" || version="$(cd / && go env GOVERSION)"
  [[ "$version" =~ ^go1\.([0-9]+) ]] && ((BASH_REMATCH[1] >= 25)) ||
    die "Go 1.25 or newer is needed to build Kubernetes, found ${version:-none}"
}

# Every ten seconds one line: what is compiled and linked so far, and the time.
build_heartbeat() {
  local out="$1" log="$2" began="$3" linked compiled
  while sleep 10; do
    compiled="$(grep -vc downloading "$log")" || true
    if [[ ! -s "$out.total" ]]; then
      say "  $(($(date +%s) - began)) s: downloading, $(grep -c downloading "$log" || true) modules so far"
      continue
    fi
    linked="$(cd "$out" && echo *)"
    [[ "$linked" == '*' ]] && linked='none yet'
    say "  $(($(date +%s) - began)) s: $compiled of at most $(<"$out.total") packages compiled" \
      "($(grep -v downloading "$log" | tail -n 1)); linked: $linked"
  done
}

build_binaries() {
  local bin="$1" name packages=() out log began version
  shift
  check_go
  for name in "$@"; do packages+=("${build_packages[$name]}"); done

  version="$(sed -nE 's/^\tk8s.io\/kubernetes (v[0-9.]+).*/\1/p' "$here/go.mod")"
  rm -rf "${bin%/bin}"/partial.*
  mkdir -p "$bin"
  out="$(mktemp -d "${bin%/bin}/partial.XXXXXX")"
  log="${bin%/bin}/build.log"
  began="$(date +%s)"
  say "building Kubernetes $version ($*) from source: 5 to 10 minutes when the Go cache is cold"

  local builder='' heart=''
  # shellcheck disable=SC2064  # expand now: these are the folders of this run
  trap 'kill $builder $heart 2>/dev/null || true' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  cd "$here"
  export CGO_ENABLED=0
  : >"$log"
  build_heartbeat "$out" "$log" "$began" {build_lock}>&- &
  heart=$!
  # Downloads what is missing, too.
  go list -mod=readonly -deps "${packages[@]}" 2>>"$log" {build_lock}>&- >"$out.packages" &
  builder=$!
  wait "$builder" || { tail -n 30 "$log" >&2; die "the modules could not be had; the whole log: $log"; }
  wc -l <"$out.packages" >"$out.total"
  # Without the version the node reports a placeholder, and helm and kubectl complain.
  nice -n 10 go build -v -mod=readonly -buildvcs=false \
    -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$version" \
    -o "$out/" "${packages[@]}" >>"$log" 2>&1 {build_lock}>&- &
  builder=$!
  wait "$builder" || { tail -n 30 "$log" >&2; die "the build failed; the whole log: $log"; }
  builder=''
  kill "$heart" 2>/dev/null || true

  [[ ! -e "$out/server" ]] || mv "$out/server" "$out/etcd"
  mv "$out"/* "$bin/"
  rm -rf "$out" "$out".*
  trap - EXIT INT TERM
  say "built in $(($(date +%s) - began)) s: $bin"
}

# build_ensure SET_NAME: no output when nothing is to do; sets $bin.
build_ensure() {
  local wanted=("${build_all_set[@]}")
  case "$1" in
    apiserver) wanted=("${build_apiserver_set[@]}") ;;
    tools) wanted=("${build_tools_set[@]}") ;;
  esac
  bin="$(bin_dir)"
  build_is_complete "$bin" "${wanted[@]}" && return
  local build_lock
  mkdir -p "${bin%/bin}"
  exec {build_lock}>>"${bin%/bin}/lock"
  flock -n "$build_lock" || { say "another build is running; waiting for it"; flock "$build_lock"; }
  build_is_complete "$bin" "${wanted[@]}" ||
    (build_binaries "$bin" "${wanted[@]}") # a subshell of its own for its traps
  exec {build_lock}>&-
  build_is_complete "$bin" "${wanted[@]}" || die "the build left $bin incomplete"
}

verb_build() {
  local only=all
  while (($#)); do
    case "$1" in
      --only) only="${2:-}"; shift 2 || usage_error "--only wants apiserver or all" ;;
      --only=*) only="${1#*=}"; shift ;;
      *) usage_error "build does not know '$1'" ;;
    esac
  done
  [[ "$only" == apiserver || "$only" == all ]] || usage_error "--only wants apiserver or all, not '$only'"
  local bin
  build_ensure "$only"
  printf '%s\n' "$bin"
}
