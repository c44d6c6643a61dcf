# shellcheck shell=bash
# Brings images into an embedded cluster's containerd.

embedded_import() { # NAME, archive on stdin
  embedded_ctr "$1" images import --snapshotter "$(state="$state_root/$1" containerd_snapshotter)" - >/dev/null
}

embedded_has_image() {
  [[ -n "$(embedded_ctr "$1" images list -q "name==$(image_full_name "$2")")" ]]
}

# Keeps the id of what was loaded under each name, to skip what did not change.
embedded_load() {
  local name="$1" tag tool id note began
  shift
  require_root
  embedded_pid "$name" >/dev/null || die "$name is not running"
  tool="$(image_tool)"
  mkdir -p "$state_root/$name/loaded"
  for tag in "$@"; do
    began=$SECONDS
    id="$(image_id "$tool" "$tag")"
    [[ -n "$id" ]] || die "$tool has no image $tag; build it first: cluster image build $tag ..."
    note="$state_root/$name/loaded/$(image_full_name "$tag" | tr '/:' '__')"
    if [[ -e "$note" && "$(<"$note")" == "$id" ]] && embedded_has_image "$name" "$tag"; then
      say "$tag is loaded already"
      continue
    fi
    image_save "$tool" "$tag" | embedded_import "$name"
    printf '%s\n' "$id" >"$note"
    say "$tag loaded in $((SECONDS - began)) s"
  done
}
