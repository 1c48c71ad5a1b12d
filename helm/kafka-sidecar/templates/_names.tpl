{{/* Names, labels and references that all manifests share. */}}

{{- define "kafka-sidecar.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{/* Of the gateway's pods; never changed, because a Deployment's selector cannot be. */}}
{{- define "kafka-sidecar.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "kafka-sidecar.labels" -}}
{{ include "kafka-sidecar.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The metadata of a manifest. Call with (list $ SUFFIX ANNOTATIONS LABELS); the last two may be missing. */}}
{{- define "kafka-sidecar.metadata" -}}
{{- $root := index . 0 -}}
{{- $annotations := dict -}}
{{- if gt (len .) 2 }}{{ $annotations = index . 2 }}{{ end -}}
name: {{ include "kafka-sidecar.fullname" $root }}{{ index . 1 }}
namespace: {{ $root.Release.Namespace }}
labels:
  {{- include "kafka-sidecar.labels" $root | nindent 2 }}
  {{- if gt (len .) 3 }}{{ with index . 3 }}
  {{- toYaml . | nindent 2 }}
  {{- end }}{{ end }}
{{- with merge (dict) $annotations $root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "kafka-sidecar.image" -}}
{{- with .Values.image -}}
{{- $name := list .registry .repository | compact | join "/" -}}
{{- if .digest }}{{ $name }}@{{ .digest }}{{ else }}{{ $name }}:{{ default $.Chart.AppVersion .tag }}{{ end -}}
{{- end -}}
{{- end }}

{{- define "kafka-sidecar.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "kafka-sidecar.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end }}
