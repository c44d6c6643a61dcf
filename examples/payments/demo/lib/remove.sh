# shellcheck shell=bash
# Removing what the demo made, and nothing else.

remove_all() {
  began_at=$SECONDS
  if provider_of "$name" >/dev/null; then
    if [[ "$(provider_of "$name")" == existing ]]; then
      use_cluster
      remove_from_cluster
      cluster down "$name" 2>/dev/null # forgets it
    else
      cluster down "$name"
    fi
    echo "The demo \"$name\" is gone ($(elapsed))."
  else
    echo "There is no demo \"$name\"."
  fi
  rm -f "$cache_root/demo-$name.lock"
  if [[ -d "$cache_root" ]]; then
    echo "What makes the next run quick stays in $cache_root and in target/; to remove that too:"
    echo "  rm -rf $cache_root $root/target"
  fi
}

# From a cluster of the person's own. The operator goes last of what runs, for it
# takes its finalizers off the resources.
remove_from_cluster() {
  local others
  if kubectl get crd consumergroups.sqlstreams.io >/dev/null 2>&1; then
    others="$(kubectl get streamdatabases,streams,consumergroups --all-namespaces --no-headers \
      -o custom-columns=NAMESPACE:.metadata.namespace 2>/dev/null | grep -vx "$namespace" | sort -u | xargs)" || true
    [[ -z "$others" ]] ||
      die "other namespaces use sqlstreams as well ($others); delete their resources first, or they go with the definitions"
    if ours "$namespace"; then
      in_example delete consumergroups,streams --all --wait --timeout=60s
      in_example delete streamdatabases --all --wait --timeout=60s
    fi
  fi
  if ours "$system"; then
    helm uninstall sqlstreams sqlstreams-crds --namespace "$system" --ignore-not-found --wait
    kubectl get crd -o name -l app.kubernetes.io/component=crds,app.kubernetes.io/name=sqlstreams | xargs -r kubectl delete
    kubectl delete namespace "$system" --wait
  fi
  ! ours "$namespace" || kubectl delete namespace "$namespace" --wait
}

ours() {
  [[ "$(kubectl get namespace "$1" --ignore-not-found -o jsonpath="{.metadata.labels['${demo_label//./\\.}']}")" == "$name" ]]
}
