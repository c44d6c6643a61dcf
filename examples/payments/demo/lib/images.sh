# shellcheck shell=bash
# What has to be built, most of it once. The tags carry a hash of the sources:
# what is there already is not built again, and a changed image rolls out.

introduce() {
  echo "sqlstreams: the payments example on a real cluster ($name)"
  case "$(provider_choice)" in
    embedded)
      echo "The first run builds Kubernetes and sqlstreams from source, about 15 minutes on two"
      echo "cores; later ones take less than half a minute."
      ;;
    kind)
      echo "The first run builds sqlstreams from source, about 10 minutes on two cores; later"
      echo "ones take less than a minute."
      ;;
    existing) echo "It takes about a minute, and as long as the images take to be pulled." ;;
  esac
}

check_machine() {
  step "Looking at the machine"
  provider="$(provider_choice)"
  say "cluster: $provider"
  case "$provider" in
    existing)
      [[ -n "${SQLSTREAMS_IMAGE:-}" && -n "${SQLSTREAMS_HANDLER_IMAGE:-}" ]] ||
        die "for a cluster of your own set SQLSTREAMS_IMAGE and SQLSTREAMS_HANDLER_IMAGE to images that it can pull; make image builds them"
      return
      ;;
    embedded)
      ((EUID == 0)) || die "the embedded cluster needs root: use sudo -E make demo, or kind with Docker, or name your own cluster (demo help)"
      cluster packages 2>&1 | relay
      ;;
  esac
  tool="$(image_tool)"
  say "images: built with $tool"
  # Docker compiles inside its own Rust image.
  [[ "$tool" == docker ]] || check_cargo
}

check_cargo() {
  have cargo || die "cargo is missing; Rust $(rust_version) or newer is needed (https://rustup.rs)"
  local found
  found="$(cd "$root" && rustc --version | cut -d' ' -f2)"
  [[ "$(printf '%s\n' "$(rust_version)" "$found" | sort -V | head -n 1)" == "$(rust_version)" ]] ||
    die "Rust $(rust_version) or newer is needed, found $found; update with: rustup update"
}
rust_version() { sed -n 's/^rust-version = "\(.*\)"/\1/p' "$root/Cargo.toml"; }

# hash_of PATH...: of the contents and names of all files there.
hash_of() {
  (cd "$root" && find "$@" -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -c1-12)
}

name_images() {
  if [[ "$provider" == existing ]]; then
    image="$SQLSTREAMS_IMAGE" handler_image="$SQLSTREAMS_HANDLER_IMAGE"
    postgres_image="${SQLSTREAMS_POSTGRES_IMAGE:-postgres:17}"
    return
  fi
  local key
  key="$(hash_of Cargo.toml Cargo.lock Dockerfile src migrations examples/payments/handler.rs)"
  image="localhost/sqlstreams:$key"
  handler_image="localhost/payments-handler:$key"
  postgres_image="localhost/postgres:$(hash_of tests/cluster/images/postgres)"
}

have_image() { [[ -n "$(image_id "$tool" "$1")" ]]; }

build_all() {
  step "Building"
  name_images
  [[ "$provider" != existing ]] || { say "nothing: $image and $handler_image are to be pulled"; return; }
  # Compiling Kubernetes and compiling sqlstreams each leave a core idle at
  # times, and making the image of Postgres mostly waits for downloads.
  [[ "$provider" != embedded ]] || in_background kubernetes cluster build
  have_image "$postgres_image" ||
    in_background postgres cluster image build "$postgres_image" \
      "$root/tests/cluster/images/postgres/Dockerfile" "$root/tests/cluster/images/postgres"
  if have_image "$image" && have_image "$handler_image"; then
    say "sqlstreams is built: $image"
  else
    compile
    [[ -z "${background_pid[postgres]:-}" ]] || wait_for postgres
    build_image sqlstreams "$image"
    build_image payments-handler "$handler_image"
  fi
  [[ -z "${background_pid[postgres]:-}" ]] || wait_for postgres
  [[ "$provider" != embedded ]] || wait_for kubernetes
}

compile() {
  [[ "$tool" != docker ]] || return 0
  say "compiling sqlstreams and the handlers"
  (cd "$root" && nice cargo build --release --locked --bin sqlstreams --example payments-handler 2>&1) |
    heartbeat || die "cargo failed"
}

# Every line that is not about one more crate, and every 15 seconds how far it is.
heartbeat() {
  local line='' count=0 status=0 said=$SECONDS
  while :; do
    status=0
    IFS= read -r -t 5 line || status=$?
    ((status == 0 || status > 128)) || return 0 # neither a line nor a pause: the end
    if ((status == 0)); then
      case "$line" in
        *Compiling* | *Downloaded* | *Downloading*) count=$((count + 1)) ;;
        *) say "$line" ;;
      esac
    fi
    if ((SECONDS - said >= 15)); then
      say "$count crates so far ($(elapsed))"
      said=$SECONDS
    fi
  done
}

# The host's binaries go in where buildah builds, whose vfs store would copy an image
# with Rust whole for each layer.
build_image() { # TARGET TAG
  local arguments=(--no-layers --target "$1" --build-arg BINARIES=prebuilt --build-arg BUILDER_IMAGE=debian:bookworm-slim)
  [[ "$tool" != docker ]] || arguments=(--target "$1")
  in_background "image of $1" cluster image build "$2" "$root/Dockerfile" "$root" "${arguments[@]}"
  wait_for "image of $1"
}

start_cluster() {
  step "Starting the cluster"
  cluster up "$name" 2>&1 | relay
  use_cluster
}

load_images() {
  step "Loading the images"
  [[ "$provider" != existing ]] || { say "not for a cluster of your own"; return; }
  cluster load "$name" "$image" "$handler_image" "$postgres_image" 2>&1 | relay
}
