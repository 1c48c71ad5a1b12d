{{/*
For the pod template of an application's own chart, which names this chart as a dependency with `mode: sidecar`.
Each takes this chart's context: {{ include "kafka-sidecar.initContainers" (index .Subcharts "kafka-sidecar") }}
*/}}

{{- define "kafka-sidecar.isNative" -}}
{{- if eq (toString .Values.sidecar.native) "auto" -}}
{{- if semverCompare ">=1.29.0-0" .Capabilities.KubeVersion.Version }}true{{ end -}}
{{- else if .Values.sidecar.native }}true{{ end -}}
{{- end }}

{{/* List item of initContainers, from Kubernetes 1.29: starts before the application and ends after it. */}}
{{- define "kafka-sidecar.initContainers" -}}
{{- if include "kafka-sidecar.isNative" . -}}
- restartPolicy: Always
  {{- include "kafka-sidecar.container" . | nindent 2 }}
  {{- with .Values.lifecycleHooks }}
  lifecycle:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
{{- end }}

{{/*
List item of containers, before Kubernetes 1.29, where both containers get SIGTERM at the same moment:
the sidecar serves on until the application has had time to end.
*/}}
{{- define "kafka-sidecar.containers" -}}
{{- if not (include "kafka-sidecar.isNative" .) -}}
- {{ include "kafka-sidecar.container" . | nindent 2 | trim }}
  lifecycle:
    {{- with .Values.lifecycleHooks }}
    {{- toYaml . | nindent 4 }}
    {{- else }}
    preStop:
      exec:
        command: [sleep, {{ .Values.sidecar.preStopSeconds | quote }}]
    {{- end }}
{{- end -}}
{{- end }}

{{/* List item of the env of the application's containers. */}}
{{- define "kafka-sidecar.clientEnv" -}}
- name: {{ .Values.sidecar.clientEnv }}
  value: 127.0.0.1:{{ (include "kafka-sidecar.ports" . | fromYaml).listen }}
{{- end }}

{{/* Labels of the pod: PodMonitor and NetworkPolicy select by them. */}}
{{- define "kafka-sidecar.podLabels" -}}
kafka-sidecar: {{ include "kafka-sidecar.fullname" . }}
{{- end }}

{{/* Annotations of the pod. */}}
{{- define "kafka-sidecar.podAnnotations" -}}
checksum/kafka-sidecar: {{ include "kafka-sidecar.checksum" . }}
{{- end }}

{{/* Labels by which the sidecar's pods are selected, in either mode. */}}
{{- define "kafka-sidecar.podSelector" -}}
{{- if eq .Values.mode "gateway" -}}
{{ include "kafka-sidecar.selectorLabels" . }}
{{- else -}}
{{ include "kafka-sidecar.podLabels" . }}
{{- end -}}
{{- end }}
