#!/usr/bin/env bash
# The node: process 1 of a PID, mount and network namespace of its own, which
# runs every daemon of one cluster and starts again what dies. When it ends, the
# kernel ends all its processes and takes the mounts and interfaces with them,
# so nothing can be left behind, whatever kills it.
#
# node.sh STATE_FOLDER, started by start_node in lifecycle.sh.
set -euo pipefail

state="$1"
# shellcheck source=/dev/null
source "$state/node.env" # name bin node_ip host_ip and the ranges, see config.sh
etc="$state/etc" pki="$state/pki" log="$state/log"

# The old /proc is still mounted, so this is the PID that the host sees.
read -r host_pid _ </proc/self/stat
echo "$host_pid" >"$state/node.pid.new"
mv "$state/node.pid.new" "$state/node.pid"

# Folders that daemons use by fixed names become the cluster's own.
mount -t proc proc /proc
mkdir -p "$state"/run "$state"/var/{lib,log}
mount --bind "$state/run" /run
mount --bind "$state/var/lib" /var/lib
mount --bind "$state/var/log" /var/log
mkdir -p /run/lock
mount --make-rshared / # volumes with mount propagation need it
hostname "$name"

# The host adds eth0 as soon as it knows the PID.
until [[ -e /proc/sys/net/ipv4/conf/eth0 ]]; do sleep 0.02; done
ip link set lo up
ip address add "$node_ip/30" dev eth0
ip link set eth0 up
ip route add default via "$host_ip"
echo 1 >/proc/sys/net/ipv4/ip_forward

daemon() { # NAME COMMAND...
  local daemon_name="$1"
  shift
  while :; do
    "$@" >>"$log/$daemon_name.log" 2>&1 && status=0 || status=$?
    echo "$(date +%T) $daemon_name ended with $status, starting it again" >>"$log/node.log"
    sleep 0.5
  done
}

port_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

daemon containerd containerd --config "$etc/containerd.toml" &
daemon etcd "$bin/etcd" --data-dir="$state/etcd" --unsafe-no-fsync --log-level=warn \
  --listen-client-urls=http://127.0.0.1:2379 --advertise-client-urls=http://127.0.0.1:2379 \
  --listen-peer-urls=http://127.0.0.1:2380 --initial-advertise-peer-urls=http://127.0.0.1:2380 \
  --initial-cluster=default=http://127.0.0.1:2380 --listen-metrics-urls= &
until port_open 2379; do sleep 0.05; done

daemon kube-apiserver "$bin/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 \
  --bind-address=0.0.0.0 --advertise-address="$node_ip" --secure-port=6443 \
  --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
  --service-cluster-ip-range="$service_cidr" --kubelet-preferred-address-types=InternalIP \
  --client-ca-file="$pki/ca.crt" \
  --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" \
  --kubelet-client-certificate="$pki/apiserver-kubelet-client.crt" \
  --kubelet-client-key="$pki/apiserver-kubelet-client.key" \
  --service-account-issuer=https://kubernetes.default.svc.cluster.local \
  --service-account-key-file="$pki/service-account.pub" \
  --service-account-signing-key-file="$pki/service-account.key" \
  --requestheader-client-ca-file="$pki/front-proxy-ca.crt" \
  --requestheader-allowed-names=front-proxy-client \
  --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
  --requestheader-extra-headers-prefix=X-Remote-Extra- \
  --proxy-client-cert-file="$pki/front-proxy-client.crt" \
  --proxy-client-key-file="$pki/front-proxy-client.key" &
until [[ "$("$bin/kubectl" --kubeconfig "$state/kubeconfig" get --raw /readyz 2>/dev/null)" == ok ]]; do
  sleep 0.2
done

daemon kubelet "$bin/kubelet" --config="$etc/kubelet.yaml" --kubeconfig="$etc/kubelet.kubeconfig" \
  --hostname-override="$name" --node-ip="$node_ip" &
daemon kube-controller-manager "$bin/kube-controller-manager" --kubeconfig="$etc/controller-manager.kubeconfig" \
  --leader-elect=false --use-service-account-credentials --root-ca-file="$pki/ca.crt" \
  --service-account-private-key-file="$pki/service-account.key" \
  --cluster-signing-cert-file="$pki/ca.crt" --cluster-signing-key-file="$pki/ca.key" \
  --requestheader-client-ca-file="$pki/front-proxy-ca.crt" --bind-address=127.0.0.1 &
daemon kube-scheduler "$bin/kube-scheduler" --kubeconfig="$etc/scheduler.kubeconfig" \
  --leader-elect=false --bind-address=127.0.0.1 &
daemon kube-proxy "$bin/kube-proxy" --kubeconfig="$etc/proxy.kubeconfig" --hostname-override="$name" \
  --proxy-mode=iptables --cluster-cidr="$pod_cidr" --oom-score-adj=0 --conntrack-max-per-core=0 \
  --conntrack-tcp-timeout-established=0 --conntrack-tcp-timeout-close-wait=0 &
daemon coredns "$bin/coredns" -conf "$etc/Corefile" &

# Reaps what the shims of dead containers leave to process 1.
while :; do wait -n || true; done
