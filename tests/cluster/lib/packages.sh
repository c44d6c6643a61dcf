# shellcheck shell=bash
# What must be on the machine for the embedded cluster, and how to get it.

# A thing to look for (a command, or a path) and the Debian package that has it.
required_packages=(
  containerd=containerd ctr=containerd runc=runc
  /usr/lib/cni/ptp=containernetworking-plugins
  conntrack=conntrack iptables=iptables ip=iproute2 nsenter=util-linux
  busybox=busybox-static buildah=buildah mmdebstrap=mmdebstrap
  openssl=openssl tar=tar
  initdb=postgresql
)

# What the tests want besides, and a cluster does not.
test_packages=(/usr/sbin/pgbouncer=pgbouncer)

# Where the CNI plugins are: Debian's place, or the one of upstream's tarball.
cni_bin_dir() {
  local dir
  for dir in /usr/lib/cni /opt/cni/bin /usr/libexec/cni; do
    [[ -x "$dir/ptp" ]] && { printf '%s\n' "$dir"; return; }
  done
  return 1
}

requirement_met() {
  case "$1" in
    /usr/lib/cni/*) cni_bin_dir >/dev/null ;;
    # Debian keeps the server's programs out of every PATH.
    initdb) have initdb || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null ;;
    # Only a static one runs in an empty image.
    busybox) have busybox && ! ldd "$(command -v busybox)" 2>/dev/null | grep -q '=>' ;;
    /*) [[ -x "$1" ]] ;;
    *) have "$1" ;;
  esac
}

missing_packages() {
  local entry
  for entry in "${required_packages[@]}"; do
    requirement_met "${entry%%=*}" || printf '%s\n' "${entry#*=}"
  done | sort -u
}

# Installs without starting anything: neither a Postgres on port 5432 nor a
# containerd of the machine is wanted.
install_packages() {
  local policy=/usr/sbin/policy-rc.d pg=/etc/postgresql-common/createcluster.d/zz-sqlstreams.conf made=()
  local began=$SECONDS status=0
  if [[ ! -e "$policy" ]]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy"
    made+=("$policy")
  fi
  if ! requirement_met initdb; then
    mkdir -p "${pg%/*}"
    printf 'create_main_cluster = false\n' >"$pg"
    made+=("$pg")
  fi
  # shellcheck disable=SC2064  # expand now
  trap "rm -f ${made[*]@Q}" EXIT
  say "installing: $*"
  { DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "$@" ||
    { say "once more with fresh package lists" && apt-get -qq update &&
      DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "$@"; }; } >&2 || status=$?
  rm -f "${made[@]}"
  trap - EXIT
  ((status == 0)) || die "apt-get failed with $status"
  say "installed in $((SECONDS - began)) s"
}

verb_packages() {
  local missing again=packages
  if [[ "${1:-}" == --tests ]]; then
    required_packages+=("${test_packages[@]}")
    again="packages --tests"
    shift
  fi
  (($# == 0)) || usage_error "packages takes no argument but --tests"
  mapfile -t missing < <(missing_packages)
  if ((${#missing[@]})); then
    if ((EUID == 0)) && have apt-get; then
      install_packages "${missing[@]}"
      mapfile -t missing < <(missing_packages)
      ((${#missing[@]} == 0)) || die "still missing after the installation: ${missing[*]}"
    else
      say "missing on this machine: ${missing[*]}"
      if have apt-get; then
        say "install them with: sudo $here/cluster $again"
      else
        say "install them with your distribution's package manager (the names are Debian's)"
      fi
      exit 1
    fi
  fi
  check_go
}

# Names what is missing, before a verb fails halfway for the want of it.
require_packages() {
  local missing
  mapfile -t missing < <(missing_packages)
  ((${#missing[@]} == 0)) ||
    die "missing on this machine: ${missing[*]}; run: sudo $here/cluster packages"
}
