# shellcheck shell=bash
# A cluster that the person names. Both the file and the context must be named:
# the current context may be production.

existing_check() {
  [[ -n "${SQLSTREAMS_KUBECONFIG:-}" && -n "${SQLSTREAMS_CONTEXT:-}" ]] ||
    die "to use an existing cluster set both SQLSTREAMS_KUBECONFIG and SQLSTREAMS_CONTEXT"
  [[ -r "$SQLSTREAMS_KUBECONFIG" ]] || die "SQLSTREAMS_KUBECONFIG cannot be read: $SQLSTREAMS_KUBECONFIG"
}

# Writes a kubeconfig with the named context alone and current, so that nothing
# that uses it can fall through to another one.
existing_up() {
  local name="$1" state="$state_root/$1"
  existing_check
  tools_ensure
  mkdir -p "$state"
  echo existing >"$state/kind"
  (
    umask 077
    "$(tools_dir)/kubectl" --kubeconfig "$SQLSTREAMS_KUBECONFIG" --context "$SQLSTREAMS_CONTEXT" \
      config view --minify --flatten >"$state/kubeconfig"
  ) || { rm -rf "$state"; die "no context $SQLSTREAMS_CONTEXT in $SQLSTREAMS_KUBECONFIG"; }
  "$(tools_dir)/kubectl" --kubeconfig "$state/kubeconfig" --request-timeout=15s get --raw /readyz >/dev/null || {
    rm -rf "$state"
    die "the cluster of context $SQLSTREAMS_CONTEXT does not answer"
  }
  say "using the existing cluster of context $SQLSTREAMS_CONTEXT"
  printf '%s\n' "$state/kubeconfig"
}

existing_healthy() {
  "$(tools_dir)/kubectl" --kubeconfig "$state_root/$1/kubeconfig" --request-timeout=5s get --raw /readyz >/dev/null 2>&1
}

existing_down() {
  rm -rf "${state_root:?}/$1"
  say "forgotten; the cluster itself and what was installed there are untouched"
}

existing_load() {
  shift
  say "images are not sent to an existing cluster: $*"
  say "push them to a registry that it pulls from, and name the image there with SQLSTREAMS_IMAGE"
  [[ -n "${SQLSTREAMS_IMAGE:-}" ]] || exit 1
}

existing_run() {
  die "cluster run is not possible for an existing cluster; use kubectl port-forward"
}
