{{- define "pendulum.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "pendulum.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "pendulum.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "pendulum.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "pendulum.selectorLabels" -}}
app.kubernetes.io/name: {{ include "pendulum.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "pendulum.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "pendulum.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "pendulum.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "pendulum.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "pendulum.isIpv6" -}}
{{- if contains ":" .Values.listen.address -}}yes{{- end -}}
{{- end -}}

{{- /* Where a probe of the kubelet, which is in the node's network too, finds the agent. Empty: at the node's address. */ -}}
{{- define "pendulum.probeHost" -}}
{{- if not (has .Values.listen.address (list "0.0.0.0" "::")) -}}{{ .Values.listen.address }}{{- end -}}
{{- end -}}

{{- /* The configuration file. TOML's basic strings are written as JSON's. */ -}}
{{- define "pendulum.config" -}}
listen = {{ ternary (printf "[%s]:%d" .Values.listen.address (int .Values.listen.port)) (printf "%s:%d" .Values.listen.address (int .Values.listen.port)) (eq "yes" (include "pendulum.isIpv6" .)) | toJson }}

[log]
format = {{ .Values.log.format | toJson }}
level = {{ .Values.log.level | toJson }}

[http]
{{- if .Values.auth.existingSecret }}
token-file = "/etc/pendulum-token/token"
{{- end }}
{{- if .Values.tls.existingSecret }}
tls-certificate = "/etc/pendulum-tls/tls.crt"
tls-key = "/etc/pendulum-tls/tls.key"
{{- end }}
{{ range .Values.links }}
[[link]]
wan = {{ .wan | toJson }}
{{- with .name }}
name = {{ . | toJson }}
{{- end }}
{{- with .lan }}
lan = {{ . | toJson }}
{{- end }}
{{- with .uplinkRate }}
uplink-rate = {{ . | toJson }}
{{- end }}
{{- with .downlinkRate }}
downlink-rate = {{ . | toJson }}
{{- end }}
{{- with .downlinkDevice }}
downlink-device = {{ . | toJson }}
{{- end }}
{{- with .ingressHook }}
ingress-hook = {{ . | toJson }}
{{- end }}
{{- with .maxFlows }}
max-flows = {{ int . }}
{{- end }}
{{- with .nursery }}
nursery = {{ int . }}
{{- end }}
{{ end }}
{{- with .Values.extraConfig }}
{{ . }}
{{- end }}
{{- end -}}
