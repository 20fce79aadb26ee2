{{/* The name of all objects. */}}
{{- define "fastlimit.name" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride }}
{{- else if contains "fastlimit" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}{{ printf "%s-fastlimit" (.Release.Name | trunc 40 | trimSuffix "-") }}
{{- end }}
{{- end }}

{{/* What selects the pods. It never changes, or an upgrade would fail. */}}
{{- define "fastlimit.selector" -}}
app.kubernetes.io/name: fastlimit
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "fastlimit.labels" -}}
{{ include "fastlimit.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* fastlimit.yaml: what the chart sets, and what config says. */}}
{{- define "fastlimit.config" -}}
{{- $config := deepCopy .Values.config }}
{{- $_ := set $config "watch" true }}
{{- $_ := set $config "listen" (list (merge (dict "address" ":8080") .Values.listener)) }}
{{- $_ := set $config "drain" (dict "delay" (printf "%ds" (int .Values.drain.delaySeconds)) "timeout" (printf "%ds" (int .Values.drain.timeoutSeconds))) }}
{{- if .Values.metrics.enabled }}
{{- $tokens := list (dict "name" "metrics" "scope" "read" "file" "/run/secrets/fastlimit/tokens/read") }}
{{- if .Values.metrics.actKey }}
{{- $tokens = append $tokens (dict "name" "operator" "scope" "act" "file" "/run/secrets/fastlimit/tokens/act") }}
{{- end }}
{{- $_ := set $config "admin" (dict "address" ":8081" "tokens" $tokens) }}
{{- else }}
{{- $_ := set $config "admin" "127.0.0.1:8081" }}
{{- end }}
{{- if .Values.cluster.enabled }}
{{- /* The name of the nodes' Service has the addresses of all pods, so that any of them is found. */}}
{{- $ours := dict "name" (include "fastlimit.name" .) "bind" "[${POD_IP}]:7946" "join" (list (printf "%s-nodes:7946" (include "fastlimit.name" .))) "secret_file" "/run/secrets/fastlimit/cluster/secret" }}
{{- /* One more in an upgrade. */}}
{{- $nodes := dict "max_nodes" (add (int .Values.replicas) 1) }}
{{- $_ := set $config "cluster" (merge $ours (default dict (get $config "cluster")) $nodes) }}
{{- end }}
{{- with .Values.redis }}
{{- if .secretName }}
{{- $ours := dict }}
{{- if .urlKey }}{{ $_ := set $ours "url_file" "/run/secrets/fastlimit/redis/url" }}{{ end }}
{{- if .passwordKey }}{{ $_ := set $ours "password_file" "/run/secrets/fastlimit/redis/password" }}{{ end }}
{{- $_ := set $config "redis" (merge $ours (default dict (get $config "redis"))) }}
{{- end }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{/* A sum of the settings that only a restart changes (docs/reload.md). */}}
{{- define "fastlimit.restart" -}}
{{- $config := include "fastlimit.config" . | fromYaml }}
{{- $parts := pick $config "admin" "memory" "redis" "postgres" "cluster" "kernel" "state_file" "connections" "denial_logs" "access_log" }}
{{- $_ := set $parts "proxy" (hasKey $config "upstream") }}
{{- toJson $parts | sha256sum }}
{{- end }}
