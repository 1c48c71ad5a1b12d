{{/* The configuration file: `config` of the values over what the mode needs, in the sidecar's own words. */}}

{{- define "kafka-sidecar.config" -}}
{{- $config := dict "listen" "127.0.0.1:19092" "admin" (dict "listen" "0.0.0.0:9190") -}}
{{- if eq .Values.mode "gateway" -}}
{{- $name := include "kafka-sidecar.fullname" . -}}
{{- $host := printf "%s.%s.svc.%s" $name .Release.Namespace .Values.clusterDomain -}}
{{- $_ := set $config "listen" "0.0.0.0:9092" -}}
{{- $_ := set $config "nodes" (dict "advertised_host" $host "first_port" 10000 "ports" 50) -}}
{{- $_ := set $config.admin "allowed_hosts" (list (printf "%s-admin" $name) (printf "%s-admin.*" $name)) -}}
{{- end -}}
{{- $_ := mergeOverwrite $config (include "kafka-sidecar.tls" . | fromYaml) -}}
{{- mergeOverwrite $config (deepCopy .Values.config) | toYaml -}}
{{- end }}

{{/* The sections of TLS and of the admin port's token, whose files are those of mounted Secrets. */}}
{{- define "kafka-sidecar.tls" -}}
{{- if or .Values.tls.admin.secretName .Values.admin.tokenSecretName -}}
admin:
  {{- if .Values.admin.tokenSecretName }}
  token_file: /etc/kafka-sidecar-admin/token
  {{- end }}
  {{- if .Values.tls.admin.secretName }}
  tls:
    certificate: /etc/kafka-sidecar-tls/admin/tls.crt
    key: /etc/kafka-sidecar-tls/admin/tls.key
  {{- end }}
{{ end -}}
{{- with .Values.tls.clients -}}
{{- if .secretName -}}
clients:
  tls:
    certificate: /etc/kafka-sidecar-tls/clients/tls.crt
    key: /etc/kafka-sidecar-tls/clients/tls.key
    {{- if .requireCertificates }}
    ca: /etc/kafka-sidecar-tls/clients/ca.crt
    client_certificates: required
    {{- end }}
{{ end -}}
{{- end -}}
{{- with .Values.tls.brokers -}}
{{- if .enabled -}}
brokers:
  security_protocol: SSL
  {{- if .secretName }}
  tls:
    ca: /etc/kafka-sidecar-tls/brokers/ca.crt
    {{- if .presentCertificate }}
    certificate: /etc/kafka-sidecar-tls/brokers/tls.crt
    key: /etc/kafka-sidecar-tls/brokers/tls.key
    {{- end }}
  {{- end }}
{{ end -}}
{{- end -}}
{{- end }}

{{- define "kafka-sidecar.configMapName" -}}
{{- default (include "kafka-sidecar.fullname" .) .Values.existingConfigMap -}}
{{- end }}

{{/* With admin.tls the admin port accepts nothing else. */}}
{{- define "kafka-sidecar.adminScheme" -}}
{{- $config := include "kafka-sidecar.config" . | fromYaml -}}
{{- ternary "https" "http" (and $config.admin.tls $config.admin.tls.certificate | not | not) -}}
{{- end }}

{{/* Port numbers, from the configuration. */}}
{{- define "kafka-sidecar.ports" -}}
{{/* Each worker has as many ports for brokers as nodes.ports says, one range after the other. */ -}}
{{- $config := include "kafka-sidecar.config" . | fromYaml -}}
{{- $listen := regexFind "[0-9]+$" $config.listen | int -}}
{{- $nodes := default (dict) $config.nodes -}}
{{- $first := int (default (add1 $listen) $nodes.first_port) -}}
{{- $count := mul (default 100 $nodes.ports | int) (default 1 $config.workers | int) -}}
listen: {{ $listen }}
admin: {{ regexFind "[0-9]+$" $config.admin.listen }}
first: {{ $first }}
last: {{ sub (add $first $count) 1 }}
{{- end }}

{{/*
What a running sidecar does not apply by itself. All other sections are reloaded from the mounted file,
so a change of policies starts no pod again.
*/}}
{{- define "kafka-sidecar.checksum" -}}
{{- $reloaded := list "schema_registries" "policies" "topics" "validation" "limits" "interceptors" "interception" "large_messages" "authorization" "dead_letters" "producers" "rate_limits" "topic_guards" "tap" -}}
{{- $aliases := list "interceptor.classes" "record.validation.policy.class.name" "record.validation.policy.class.path" -}}
{{- $config := include "kafka-sidecar.config" . | fromYaml -}}
{{- range concat $reloaded $aliases }}{{ $_ := unset $config . }}{{ end -}}
{{- toYaml $config | sha256sum -}}
{{- end }}

{{/* Ends the installation with a line that says what is missing. */}}
{{- define "kafka-sidecar.check" -}}
{{- $given := or .Values.existingConfigMap .Values.config.bootstrap_servers (index .Values.config "bootstrap.servers") .Values.extraEnvFrom -}}
{{- range .Values.extraEnv }}{{ if eq .name "KAFKA_SIDECAR__BOOTSTRAP_SERVERS" }}{{ $given = true }}{{ end }}{{ end -}}
{{- if not $given }}{{ fail "config.bootstrap_servers is missing: list the brokers, as for any Kafka client" }}{{ end -}}
{{- if eq (toString .Values.config.workers) "auto" }}{{ fail "config.workers is auto: set a number, because the Service lists the ports of all workers" }}{{ end -}}
{{- with .Values.networkPolicy -}}
{{- if and .brokers.enabled (not .brokers.podSelector) }}{{ fail "networkPolicy.brokers.podSelector is missing: the labels of the brokers' pods" }}{{ end -}}
{{- if and .applications.enabled (not .applications.brokerCIDRs) }}{{ fail "networkPolicy.applications.brokerCIDRs is missing: the addresses of the brokers" }}{{ end -}}
{{- if and .applications.enabled (not .applications.namespaces) }}{{ fail "networkPolicy.applications.namespaces is missing: the namespaces of the clients" }}{{ end -}}
{{- if and .applications.enabled (not .applications.podSelector) (has $.Release.Namespace .applications.namespaces) }}{{ fail "networkPolicy.applications.podSelector is missing: the gateway's own namespace has pods that must reach the brokers, and a label that lets them through any pod may have; install the gateway in a namespace of its own, or list the labels of the clients' pods" }}{{ end -}}
{{- if and .enabled (or $.Values.metrics.podMonitor.enabled $.Values.metrics.serviceMonitor.enabled) (not .monitoring) }}{{ fail "networkPolicy.monitoring is missing: the peers that may use the admin port, such as Prometheus" }}{{ end -}}
{{- end -}}
{{- end }}
