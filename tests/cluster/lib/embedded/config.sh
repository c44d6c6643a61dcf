# shellcheck shell=bash
# The files that the daemons of an embedded cluster read.

write_configuration() { # NAME STATE BIN
  local name="$1" state="$2" bin="$3" index node_ip host_ip etc="$2/etc" pki="$2/pki" identity
  index="$(<"$state/index")"
  node_ip="$(address_of "$index" 2)" host_ip="$(address_of "$index" 1)"
  mkdir -p "$etc/cni" "$state/log" "$state/run" "$state/manifests"

  printf '%s=%q\n' name "$name" bin "$bin" node_ip "$node_ip" host_ip "$host_ip" \
    service_cidr "$service_cidr" pod_cidr "$pod_cidr" >"$state/node.env"

  pki_control_plane "$pki" "DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local,DNS:localhost,DNS:$name,IP:$service_api_ip,IP:127.0.0.1,IP:$node_ip"
  pki_node "$pki" "$name"
  for identity in kubelet controller-manager scheduler proxy coredns; do
    pki_kubeconfig "$etc/$identity.kubeconfig" https://127.0.0.1:6443 "$pki" "$identity" "$name"
  done
  pki_kubeconfig "$state/kubeconfig" "https://$node_ip:6443" "$pki" admin "sqlstreams-$name"

  write_containerd >"$etc/containerd.toml"
  write_cni >"$etc/cni/10-pods.conflist"
  write_kubelet >"$etc/kubelet.yaml"
  write_corefile >"$etc/Corefile"
  write_bootstrap >"$etc/bootstrap.yaml"
  printf 'nameserver %s\nsearch svc.cluster.local cluster.local\noptions ndots:5\n' \
    "$service_dns_ip" >"$etc/resolv.conf"
}

# Overlayfs cannot lie on overlayfs, which is what a container's /var/tmp may be.
containerd_snapshotter() {
  if [[ "$(stat -f -c %T "$state")" == overlayfs ]]; then echo native; else echo overlayfs; fi
}

# restrict_oom_score_adj: without CAP_SYS_RESOURCE no sandbox starts otherwise.
write_containerd() {
  cat <<EOF
version = 2
root = "$state/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "$busybox_image"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "$(containerd_snapshotter)"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$(cni_bin_dir)"
    conf_dir = "$etc/cni"
EOF
}

# Routed pairs rather than a bridge: traffic from a pod to a Service of a pod on
# the same node then passes iptables also where br_netfilter is not loaded.
write_cni() {
  cat <<EOF
{
  "cniVersion": "0.4.0",
  "name": "pods",
  "plugins": [
    {
      "type": "ptp",
      "ipMasq": false,
      "ipam": {
        "type": "host-local",
        "ranges": [[{"subnet": "$pod_cidr"}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
EOF
}

# No eviction and no reservations: the machine is shared, and a test must not
# fail because its disk is 86 % full.
write_kubelet() {
  cat <<EOF
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: /$(cgroup_name "$name")
failSwapOn: false
failCgroupV1: false
enforceNodeAllocatable: []
localStorageCapacityIsolation: false
evictionHard: {memory.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%", imagefs.inodesFree: "0%", pid.available: "0%"}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
oomScoreAdj: 0
volumePluginDir: $state/var/lib/volume-plugins
clusterDomain: cluster.local
clusterDNS: [$service_dns_ip]
resolvConf: $etc/upstream-resolv.conf
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: $pki/ca.crt}
authorization: {mode: Webhook}
EOF
  : >"$etc/upstream-resolv.conf"
}

# A cluster has no way out, so a foreign name is refused at once; a resolver
# that the node can reach may be named.
write_corefile() {
  cat <<EOF
.:53 {
  bind $node_ip
  errors
  cache 5
  kubernetes cluster.local in-addr.arpa ip6.arpa {
    kubeconfig $etc/coredns.kubeconfig
    ttl 5
  }
${SQLSTREAMS_DNS_UPSTREAM:+  forward . $SQLSTREAMS_DNS_UPSTREAM}
}
EOF
}

# CoreDNS is a process of the node: its Service has an endpoint written by hand.
write_bootstrap() {
  cat <<EOF
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: system:coredns}
rules:
- {apiGroups: [""], resources: [endpoints, services, pods, namespaces], verbs: [list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: system:coredns}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:coredns}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: system:coredns}]
---
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec:
  clusterIP: $service_dns_ip
  ports:
  - {name: dns, port: 53, protocol: UDP}
  - {name: dns-tcp, port: 53, protocol: TCP}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: kube-dns-node
  namespace: kube-system
  labels: {kubernetes.io/service-name: kube-dns}
addressType: IPv4
endpoints: [{addresses: ["$node_ip"], conditions: {ready: true}}]
ports:
- {name: dns, port: 53, protocol: UDP}
- {name: dns-tcp, port: 53, protocol: TCP}
EOF
}
