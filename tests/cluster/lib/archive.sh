# shellcheck shell=bash
# Writes an image as a Docker archive with plain tools, for images that are one
# layer of files.

# docker_archive LAYER_TAR NAME CONFIG_JSON OUT
docker_archive() {
  local layer="$1" name="$2" config="$3" out="$4" work
  work="$(mktemp -d "$out.XXXXXX")"
  ln "$layer" "$work/layer.tar" 2>/dev/null || cp "$layer" "$work/layer.tar"
  printf '{"architecture": "%s", "os": "linux", "created": "1970-01-01T00:00:00Z", "config": %s, "rootfs": {"type": "layers", "diff_ids": ["sha256:%s"]}, "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "sqlstreams tests/cluster"}]}\n' \
    "$(image_architecture)" "$config" "$(sha256sum "$layer" | cut -d' ' -f1)" >"$work/config.json"
  printf '[{"Config": "config.json", "RepoTags": ["%s"], "Layers": ["layer.tar"]}]\n' "$name" >"$work/manifest.json"
  tar -C "$work" -cf "$work/image.tar" manifest.json config.json layer.tar
  mv "$work/image.tar" "$out"
  rm -rf "$work"
}

image_architecture() {
  case "$(uname -m)" in
    x86_64) echo amd64 ;;
    aarch64 | arm64) echo arm64 ;;
    *) uname -m ;;
  esac
}

# A small image made of the machine's static busybox: the sandbox ("pause") of
# every pod, and at hand for simple pods of tests. Debian's build of it crashes
# when anything but nslookup looks up a name; clients that need one run under
# `cluster run` or in another image.
busybox_image=localhost/busybox:local

# Prints the path of its archive, made once per version of busybox.
busybox_archive() {
  local program archive work applet
  program="$(command -v busybox)"
  archive="$cache_root/images/busybox-$(sha256sum "$program" | cut -c1-16).tar"
  if [[ ! -s "$archive" ]]; then
    mkdir -p "${archive%/*}"
    work="$(mktemp -d "${archive%/*}/busybox.XXXXXX")"
    mkdir -p "$work/root/bin" "$work/root/etc" "$work/root/tmp"
    chmod 1777 "$work/root/tmp"
    cp "$program" "$work/root/bin/busybox"
    while read -r applet; do
      [[ "$applet" == busybox ]] || ln -s busybox "$work/root/bin/$applet"
    done < <("$program" --list)
    printf 'root:x:0:0:root:/:/bin/sh\nnonroot:x:65532:65532:nonroot:/tmp:/bin/sh\n' >"$work/root/etc/passwd"
    printf 'root:x:0:\nnonroot:x:65532:\n' >"$work/root/etc/group"
    chmod 755 "$work/root"
    tar -C "$work/root" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf "$work/layer.tar" .
    docker_archive "$work/layer.tar" "$busybox_image" \
      '{"User": "65532:65532", "Env": ["PATH=/bin"], "Cmd": ["sleep", "2147483647"]}' "$archive"
    rm -rf "$work"
  fi
  printf '%s\n' "$archive"
}
