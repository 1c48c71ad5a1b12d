{{/* The sidecar's container, the same in a gateway's pod and beside an application; a list item is made by its callers. */}}

{{- define "kafka-sidecar.container" -}}
{{- include "kafka-sidecar.check" . -}}
{{- $config := include "kafka-sidecar.config" . | fromYaml -}}
{{- $ports := include "kafka-sidecar.ports" . | fromYaml -}}
name: kafka-sidecar
image: {{ include "kafka-sidecar.image" . | quote }}
{{- with .Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
args: [run, --config, /etc/kafka-sidecar/kafka-sidecar.yaml]
env: # over the file, so that probes and clients find the sidecar whatever an existing ConfigMap has
  - name: KAFKA_SIDECAR__LISTEN
    value: {{ $config.listen | quote }}
  - name: KAFKA_SIDECAR__ADMIN__LISTEN
    value: {{ $config.admin.listen | quote }}
  {{- /* So that `kubectl exec ... kafka-sidecar explain` needs no options. */}}
  {{- if .Values.admin.tokenSecretName }}
  - name: KAFKA_SIDECAR__ADMIN__TOKEN_FILE
    value: /etc/kafka-sidecar-admin/token
  {{- end }}
  {{- if .Values.tls.admin.secretName }}
  - name: KAFKA_SIDECAR_ADMIN
    value: https://127.0.0.1:{{ $ports.admin }}
  {{- with .Values.tls.admin.ca }}
  - name: KAFKA_SIDECAR_ADMIN_CA
    value: /etc/kafka-sidecar-tls/admin/{{ . }}
  {{- end }}
  {{- end }}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.extraEnvFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
ports:
  {{- if eq .Values.mode "gateway" }}
  - name: kafka
    containerPort: {{ $ports.listen }}
  {{- end }}
  - name: sidecar-admin
    containerPort: {{ $ports.admin }}
{{- include "kafka-sidecar.probes" . }}
resources:
  {{- toYaml (default (include "kafka-sidecar.resources" . | fromYaml) .Values.resources) | nindent 2 }}
securityContext:
  {{- toYaml .Values.containerSecurityContext | nindent 2 }}
terminationMessagePolicy: FallbackToLogsOnError
volumeMounts:
  - name: kafka-sidecar-config
    mountPath: /etc/kafka-sidecar
    readOnly: true
  - name: kafka-sidecar-tmp
    mountPath: /tmp
  {{- range .Values.secretMounts }}
  - name: kafka-sidecar-{{ .secretName }}
    mountPath: {{ .mountPath }}
    readOnly: true
  {{- end }}
  {{- range $side, $tls := .Values.tls }}{{ with $tls.secretName }}
  - name: kafka-sidecar-tls-{{ $side }}
    mountPath: /etc/kafka-sidecar-tls/{{ $side }}
    readOnly: true
  {{- end }}{{ end }}
  {{- if .Values.admin.tokenSecretName }}
  - name: kafka-sidecar-admin-token
    mountPath: /etc/kafka-sidecar-admin
    readOnly: true
  {{- end }}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* A custom probe replaces the other; `enabled: false` removes it. */}}
{{- define "kafka-sidecar.probes" -}}
{{- range $kind := list "startup" "liveness" "readiness" }}
{{- $probe := index $.Values (printf "%sProbe" $kind) }}
{{- with index $.Values (printf "custom%sProbe" (title $kind)) }}
{{ $kind }}Probe:
  {{- toYaml . | nindent 2 }}
{{- else }}{{ if $probe.enabled }}
{{ $kind }}Probe:
  {{- toYaml (omit (mergeOverwrite (deepCopy $probe) (include "kafka-sidecar.probeScheme" $ | fromYaml)) "enabled") | nindent 2 }}
{{- end }}{{ end }}
{{- end }}
{{- end }}

{{- define "kafka-sidecar.probeScheme" -}}
{{- if eq (include "kafka-sidecar.adminScheme" .) "https" -}}
httpGet: {scheme: HTTPS}
{{- end -}}
{{- end }}

{{/* One sidecar uses at most one core; memory is for buffered requests, not for records that pass. */}}
{{- define "kafka-sidecar.resources" -}}
{{- if eq .Values.mode "gateway" -}}
requests: {cpu: 500m, memory: 256Mi}
limits: {memory: 1Gi}
{{- else -}}
requests: {cpu: 50m, memory: 64Mi}
limits: {memory: 256Mi}
{{- end -}}
{{- end }}

{{/* In decimal. Without an fsGroup the files are root's, and 0440 would be of no use to the sidecar. */}}
{{- define "kafka-sidecar.secretMode" -}}
{{- if kindIs "invalid" .Values.secretFileMode -}}
{{- ternary 288 292 (eq .Values.mode "gateway") -}}
{{- else -}}
{{- int .Values.secretFileMode -}}
{{- end -}}
{{- end }}

{{/* List items. A ConfigMap is mounted as a folder, never by subPath: only a folder is updated in a running pod. */}}
{{- define "kafka-sidecar.volumes" -}}
- name: kafka-sidecar-config
  configMap:
    name: {{ include "kafka-sidecar.configMapName" . }}
- name: kafka-sidecar-tmp
  emptyDir: {}
{{- range .Values.secretMounts }}
- name: kafka-sidecar-{{ .secretName }}
  secret:
    secretName: {{ .secretName }}
    defaultMode: {{ include "kafka-sidecar.secretMode" $ }}
{{- end }}
{{- range $side, $tls := .Values.tls }}{{ with $tls.secretName }}
- name: kafka-sidecar-tls-{{ $side }}
  secret:
    secretName: {{ . }}
    defaultMode: {{ include "kafka-sidecar.secretMode" $ }}
{{- end }}{{ end }}
{{- with .Values.admin.tokenSecretName }}
- name: kafka-sidecar-admin-token
  secret:
    secretName: {{ . }}
    defaultMode: {{ include "kafka-sidecar.secretMode" $ }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
