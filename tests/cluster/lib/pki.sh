# shellcheck shell=bash
# Certificates and kubeconfigs, made anew for each cluster with openssl.
# Elliptic curves, because making a dozen RSA keys takes seconds.

pki_key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1" 2>/dev/null; }

# pki_authority DIR NAME COMMON_NAME
pki_authority() {
  pki_key "$1/$2.key"
  openssl req -x509 -new -key "$1/$2.key" -subj "/CN=$3" -days 365 -out "$1/$2.crt" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign
}

# pki_certificate DIR AUTHORITY NAME SUBJECT USAGE [SUBJECT_ALT_NAMES]
pki_certificate() {
  local dir="$1" authority="$2" name="$3" subject="$4" usage="$5" names="${6:-}"
  pki_key "$dir/$name.key"
  openssl req -new -key "$dir/$name.key" -subj "$subject" -out "$dir/$name.csr"
  {
    printf 'keyUsage=critical,digitalSignature\nextendedKeyUsage=%s\n' "$usage"
    [[ -z "$names" ]] || printf 'subjectAltName=%s\n' "$names"
  } >"$dir/$name.ext"
  openssl x509 -req -in "$dir/$name.csr" -CA "$dir/$authority.crt" -CAkey "$dir/$authority.key" \
    -set_serial "0x$(openssl rand -hex 8)" -days 365 -extfile "$dir/$name.ext" -out "$dir/$name.crt" 2>/dev/null
  rm -f "$dir/$name.csr" "$dir/$name.ext"
}

# What an API server needs, whoever runs beside it.
pki_control_plane() { # DIR SUBJECT_ALT_NAMES
  local dir="$1"
  mkdir -p "$dir"
  chmod 700 "$dir"
  pki_authority "$dir" ca kubernetes
  pki_certificate "$dir" ca apiserver /CN=kube-apiserver serverAuth "$2"
  pki_certificate "$dir" ca admin /O=system:masters/CN=kubernetes-admin clientAuth
  openssl genrsa -out "$dir/service-account.key" 2048 2>/dev/null
  openssl rsa -in "$dir/service-account.key" -pubout -out "$dir/service-account.pub" 2>/dev/null
}

# What the other parts of a node and the aggregation layer need.
pki_node() { # DIR NODE_NAME
  local dir="$1"
  pki_authority "$dir" front-proxy-ca front-proxy-ca
  pki_certificate "$dir" front-proxy-ca front-proxy-client /CN=front-proxy-client clientAuth
  pki_certificate "$dir" ca apiserver-kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client clientAuth
  pki_certificate "$dir" ca kubelet "/O=system:nodes/CN=system:node:$2" clientAuth
  pki_certificate "$dir" ca controller-manager /CN=system:kube-controller-manager clientAuth
  pki_certificate "$dir" ca scheduler /CN=system:kube-scheduler clientAuth
  pki_certificate "$dir" ca proxy /CN=system:kube-proxy clientAuth
  pki_certificate "$dir" ca coredns /CN=system:coredns clientAuth
}

# pki_kubeconfig FILE SERVER DIR IDENTITY CLUSTER_NAME: self-contained, so that
# it can be copied about.
pki_kubeconfig() {
  local file="$1" server="$2" dir="$3" identity="$4" name="$5"
  (
    umask 077
    cat >"$file.new" <<EOF
apiVersion: v1
kind: Config
clusters:
- name: $name
  cluster:
    server: $server
    certificate-authority-data: $(base64 -w0 "$dir/ca.crt")
users:
- name: $identity
  user:
    client-certificate-data: $(base64 -w0 "$dir/$identity.crt")
    client-key-data: $(base64 -w0 "$dir/$identity.key")
contexts:
- name: $name
  context: {cluster: $name, user: $identity}
current-context: $name
EOF
  )
  mv "$file.new" "$file"
}
