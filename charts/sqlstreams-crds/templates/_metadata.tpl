{{- /* Annotations and labels of every definition, under its metadata. */ -}}
{{- define "sqlstreams-crds.metadata" -}}
{{- $annotations := dict -}}
{{- if .Values.keep -}}
{{- $_ := set $annotations "helm.sh/resource-policy" "keep" -}}
{{- end -}}
{{- $annotations = merge $annotations .Values.annotations -}}
{{- with $annotations -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{ end -}}
labels:
  app.kubernetes.io/name: sqlstreams
  app.kubernetes.io/component: crds
  app.kubernetes.io/instance: {{ .Release.Name }}
  app.kubernetes.io/managed-by: {{ .Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
  {{- with .Values.labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
