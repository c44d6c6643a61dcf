# shellcheck shell=bash
# Builds images with a Docker engine where one answers, else with buildah, which
# needs neither a daemon nor a registry.

base_image=docker.io/library/debian:bookworm-slim

image_tool() {
  if [[ -n "${SQLSTREAMS_IMAGE_TOOL:-}" ]]; then
    [[ "$SQLSTREAMS_IMAGE_TOOL" == docker || "$SQLSTREAMS_IMAGE_TOOL" == buildah ]] ||
      die "SQLSTREAMS_IMAGE_TOOL is docker or buildah, not '$SQLSTREAMS_IMAGE_TOOL'"
    printf '%s\n' "$SQLSTREAMS_IMAGE_TOOL"
  elif docker_answers; then
    echo docker
  else
    echo buildah
  fi
}

# Having the client says nothing about an engine.
docker_answers() {
  have docker && timeout 5 docker info --format '{{.ServerVersion}}' >/dev/null 2>&1
}

# A store of our own: the person's images stay untouched. vfs, because overlay
# leaves mounts in the cache and does not work inside a container.
buildah_run() {
  ((EUID == 0)) || die "buildah needs root here: use sudo -E, or a Docker engine"
  have buildah || die "buildah is missing; run: sudo $here/cluster packages"
  mkdir -p "$cache_root/buildah"
  buildah --root "$cache_root/buildah/root" --runroot "$cache_root/buildah/run" \
    --storage-driver vfs "$@"
}

# Docker's rule for a name without a registry, so that pods can say `image: TAG`
# whichever tool built it.
image_full_name() {
  local name="$1"
  case "${name%%/*}" in
    "$name") name="docker.io/library/$name" ;;
    *.* | *:* | localhost) ;;
    *) name="docker.io/$name" ;;
  esac
  [[ "${name##*/}" == *:* ]] || name="$name:latest"
  printf '%s\n' "$name"
}

# The id of an image in the builder's store; empty when there is none.
image_id() {
  case "$1" in
    docker) docker image inspect --format '{{.Id}}' "$2" 2>/dev/null ;;
    buildah) buildah_run inspect --type image --format '{{.FromImageID}}' "$(image_full_name "$2")" 2>/dev/null ;;
  esac || true
}

# Writes the image to stdout as a Docker archive; its layers are not compressed,
# which is what takes most of the time otherwise.
image_save() {
  local file name
  case "$1" in
    docker) docker save "$2" ;;
    buildah)
      name="$(image_full_name "$2")"
      file="$(mktemp -u "$cache_root/buildah/save.XXXXXX")"
      buildah_run push --quiet "$name" "docker-archive:$file:$name" >&2 || { rm -f "$file"; return 1; }
      cat "$file"
      rm -f "$file"
      ;;
  esac
}

image_base() {
  local tool archive rootfs began=$SECONDS
  tool="$(image_tool)"
  if [[ "$tool" == docker ]]; then
    say "Docker pulls debian:bookworm-slim by itself"
    return
  fi
  [[ -z "$(image_id buildah "$base_image")" ]] || return 0
  ((EUID == 0)) || die "making the base image needs root: use sudo -E, or a Docker engine"
  require_packages
  lock "$cache_root/buildah.lock" 7
  if [[ -z "$(image_id buildah "$base_image")" ]]; then
    archive="$cache_root/images/debian-bookworm-slim.tar"
    mkdir -p "${archive%/*}"
    if [[ ! -s "$archive" ]]; then
      say "making $base_image from Debian's packages (about half a minute)"
      rootfs="$(mktemp -u "${archive%/*}/debian.XXXXXX")"
      # Leaves out what the published slim image leaves out.
      mmdebstrap --quiet --variant=minbase --include=ca-certificates \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-include=/usr/share/doc/*/copyright' --dpkgopt='path-exclude=/usr/share/locale/*' \
        --dpkgopt='path-exclude=/usr/share/info/*' \
        bookworm "$rootfs.tar" >&2 || { rm -f "$rootfs.tar"; die "mmdebstrap failed"; }
      docker_archive "$rootfs.tar" "$base_image" \
        '{"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"], "Cmd": ["bash"]}' "$archive"
      rm -f "$rootfs.tar"
    fi
    buildah_run pull --quiet "docker-archive:$archive" >/dev/null
    say "$base_image is there after $((SECONDS - began)) s"
  fi
  unlock 7
}

image_build() {
  (($# >= 3)) || usage_error "image build wants TAG DOCKERFILE CONTEXT [--no-layers] [--target T] [--build-arg A=B ...]"
  local tag="$1" file="$2" context="$3" tool old began=$SECONDS status=0 layers=(--layers)
  shift 3
  # Keeping each step costs buildah a copy of the image, which pays only where
  # some of the steps stay the same. Docker keeps them for nothing.
  if [[ "${1:-}" == --no-layers ]]; then
    layers=(--layers=false)
    shift
  fi
  [[ -f "$file" ]] || die "no such Dockerfile: $file"
  [[ -d "$context" ]] || die "no such folder: $context"
  tool="$(image_tool)"
  say "building image $tag with $tool"
  if [[ "$tool" == docker ]]; then
    DOCKER_BUILDKIT=1 docker build --tag "$tag" --file "$file" "$@" "$context" >&2 || status=$?
  else
    image_base
    lock "$cache_root/buildah.lock" 7
    old="$(image_id buildah "$tag")"
    buildah_run bud --isolation chroot "${layers[@]}" --format docker --tag "$(image_full_name "$tag")" \
      --file "$file" "$@" "$context" >&2 7>&- || status=$?
    # What lost its name would only fill the disk.
    [[ -z "$old" || "$old" == "$(image_id buildah "$tag")" ]] || buildah_run rmi "$old" >/dev/null 2>&1 || true
    unlock 7
  fi
  ((status == 0)) || die "image $tag could not be built"
  say "image $tag is there after $((SECONDS - began)) s"
}

verb_image() {
  local what="${1:-}"
  (($# == 0)) || shift
  case "$what" in
    base) image_base ;;
    build) image_build "$@" ;;
    *) usage_error "image wants base or build" ;;
  esac
}
