{{- define "sqlstreams.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "sqlstreams.fullname" -}}
{{- $name := include "sqlstreams.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* What cluster-wide objects are called: two releases in two namespaces may share a name. */ -}}
{{- define "sqlstreams.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "sqlstreams.fullname" .) -}}
{{- end -}}

{{- define "sqlstreams.selectorLabels" -}}
app.kubernetes.io/name: {{ include "sqlstreams.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "sqlstreams.labels" -}}
{{ include "sqlstreams.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "sqlstreams.serviceAccountName" -}}
{{- default (ternary (include "sqlstreams.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "sqlstreams.image" -}}
{{- $image := .Values.image -}}
{{- if $image.registry -}}{{ $image.registry | trimSuffix "/" }}/{{- end -}}
{{- $image.repository -}}
{{- if $image.digest -}}@{{ $image.digest }}{{- else -}}:{{ default .Chart.AppVersion $image.tag }}{{- end -}}
{{- end -}}

{{- /* All that the operator may do in a namespace. */ -}}
{{- define "sqlstreams.rules" -}}
- apiGroups: [sqlstreams.io]
  resources: [streamdatabases, streams, consumergroups]
  verbs: [get, list, watch, patch, update]
- apiGroups: [sqlstreams.io]
  resources: [streamdatabases/status, streams/status, consumergroups/status]
  verbs: [get, patch, update]
# Where an administrator lets nobody set blockOwnerDeletion without it.
- apiGroups: [sqlstreams.io]
  resources: [streamdatabases/finalizers, streams/finalizers, consumergroups/finalizers]
  verbs: [update]
# One by one, by the names that resources give: no Secret is listed or watched.
- apiGroups: [""]
  resources: [secrets, services]
  verbs: [get]
# Workers and their ServiceAccounts, and retention jobs.
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [batch]
  resources: [cronjobs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{- define "sqlstreams.subjects" -}}
- kind: ServiceAccount
  name: {{ include "sqlstreams.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}
