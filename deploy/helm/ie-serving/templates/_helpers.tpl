{{- /* Release and chart in one name; a release that is called as the chart needs it once. 50 characters
leave room for endings such as -headless within the 63 that Kubernetes takes. */ -}}
{{- define "ie-serving.fullname" -}}
{{- $chart := .Values.nameOverride | default .Chart.Name -}}
{{- $both := list .Release.Name $chart | join "-" -}}
{{- $usual := contains $chart .Release.Name | ternary .Release.Name $both -}}
{{- .Values.fullnameOverride | default $usual | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "ie-serving.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "ie-serving.metadata" -}}
labels:
  {{- include "ie-serving.selector" . | nindent 2 }}
{{- end -}}

{{- define "ie-serving.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "ie-serving.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "ie-serving.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "ie-serving.restTls" -}}
{{- if and .Values.tls.secret (ne .Values.tls.ports "grpc") -}}true{{- end -}}
{{- end -}}

{{- /* Probes have no certificate: where one is asked for, that the port is open must do. It opens when
every model has loaded, and a pod that stops leaves its Services by itself. */ -}}
{{- define "ie-serving.probe" -}}
{{- if and (include "ie-serving.restTls" .root) .root.Values.tls.clientCertificates -}}
tcpSocket:
  port: rest
{{- else -}}
httpGet:
  path: {{ .path }}
  port: rest
  {{- if include "ie-serving.restTls" .root }}
  scheme: HTTPS
  {{- end }}
{{- end -}}
{{- end -}}

{{- /* One node, one volume: the old pod lets go of it first. */ -}}
{{- define "ie-serving.volumeOfOneNode" -}}
{{- with .Values.storage -}}
{{- if and (eq .type "local") (not .local.volume) (ne .local.accessMode "ReadWriteMany") (ne .local.accessMode "ReadOnlyMany") -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The bytes of cache.size; without a unit the number is of bytes. */ -}}
{{- define "ie-serving.cacheBytes" -}}
{{- $factors := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- $number := regexFind "^[0-9.]+" .Values.cache.size -}}
{{- mulf (float64 $number) (float64 (get $factors (trimPrefix $number .Values.cache.size))) -}}
{{- end -}}

{{- /* What would be ignored, or would contradict what the chart sets, ends the rendering. */ -}}
{{- define "ie-serving.check" -}}
{{- $own := list "--config_path" "--port" "--rest_port" "--metrics_path" "--cache_dir" "--cache_size_bytes" "--drain_delay_seconds" "--drain_timeout_seconds" "--log_level" "--log_format" "--tls_certificate" "--tls_key" "--tls_client_ca" "--tls_ports" "--api_key_file" "--open_health" "--model_repository" "--load" "--load_wait_seconds" "--model_memory_budget_bytes" "--idle_unload_timeout_seconds" -}}
{{- range .Values.extraArgs -}}
{{- $flag := regexReplaceAll "=.*" . "" -}}
{{- if has $flag $own -}}
{{- fail (printf "extraArgs: %s is set by the chart, from another value or for good: see docs/guide/kubernetes.md" $flag) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.existingConfigMap (or .Values.models .Values.repositories .Values.configuration) -}}
{{- fail "existingConfigMap: models, repositories and configuration would be ignored beside it: give one or the other" -}}
{{- end -}}
{{- if and (not .Values.existingConfigMap) (not .Values.models) (not .Values.repositories) (not .Values.configuration) -}}
{{- fail "models: empty; give at least one, such as {name: digits, base_path: s3://my-models/digits}, or an existingConfigMap" -}}
{{- end -}}
{{- if and (eq .Values.storage.type "local") .Values.storage.secret -}}
{{- fail "storage.secret: a local volume takes none; set storage.type to s3, gcs or minio" -}}
{{- end -}}
{{- if and .Values.storage.ca.configMap (not (has .Values.storage.type (list "s3" "minio"))) -}}
{{- fail "storage.ca: only s3 and minio take certificates of their own" -}}
{{- end -}}
{{- if and .Values.tls.clientCertificates (not .Values.tls.secret) -}}
{{- fail "tls.clientCertificates: needs tls.secret, whose ca.crt names the authorities" -}}
{{- end -}}
{{- if and (ne .Values.tls.ports "both") (not .Values.tls.secret) -}}
{{- fail "tls.ports: nothing is encrypted without tls.secret" -}}
{{- end -}}
{{- range $part, $keys := dict "networkPolicy" (list "from" "metricsFrom" "egress") "serviceMonitor" (list "labels") "prometheusRule" (list "labels") "gateway" (list "parentRefs" "restHostnames" "grpcHostnames") "ingress" (list "className" "tlsSecret") -}}
{{- $given := index $.Values $part -}}
{{- range $keys -}}
{{- if and (index $given .) (not $given.enabled) -}}
{{- fail (printf "%s.%s: has no effect without %s.enabled: true" $part . $part) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.serviceAccount.annotations (not .Values.serviceAccount.create) -}}
{{- fail "serviceAccount.annotations: have no effect without serviceAccount.create: true" -}}
{{- end -}}
{{- if and .Values.storage.local.claim .Values.storage.local.volume -}}
{{- fail "storage.local: give a claim or a volume, not both" -}}
{{- end -}}
{{- $name := include "ie-serving.fullname" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- fail (printf "the release's name makes the name %s, which no Service may have: set fullnameOverride to letters, digits and hyphens, a letter first" $name) -}}
{{- end -}}
{{- with .Values.storage -}}
{{- if and (eq .type "local") $.Values.models -}}
{{- $local := false -}}
{{- range $.Values.models -}}
{{- if not (regexMatch "^[a-z0-9]+://" (.base_path | default "" | trimPrefix "file://")) -}}{{- $local = true -}}{{- end -}}
{{- end -}}
{{- if not $local -}}
{{- fail "storage.type: local, though no model lies on a volume: set it to s3, gcs or minio, as the models' base_path begin" -}}
{{- end -}}
{{- end -}}
{{- if and (eq .type "local") (has (.local.path | trimSuffix "/") (list "/config" "/tmp" "/tls" "/auth" "/var/cache/ie_serving")) -}}
{{- fail (printf "storage.local.path: %s is where the chart mounts something else; choose another one" .local.path) -}}
{{- end -}}
{{- $several := or $.Values.autoscaling.enabled (gt (int $.Values.replicas) 1) -}}
{{- if and (include "ie-serving.volumeOfOneNode" $) (eq .local.accessMode "ReadWriteOncePod") $several -}}
{{- fail "storage.local.accessMode: a claim that is ReadWriteOncePod serves one pod: set it to ReadWriteMany, or replicas to 1" -}}
{{- end -}}
{{- end -}}
{{- range $key, $_ := .Values.podLabels -}}
{{- if has $key (list "app.kubernetes.io/name" "app.kubernetes.io/instance") -}}
{{- fail (printf "podLabels: %s is set by the chart, which finds its pods by it" $key) -}}
{{- end -}}
{{- end -}}
{{- if and (not .Values.cache.claim) (le (float64 (include "ie-serving.cacheBytes" .)) (float64 .Values.cache.bytes)) -}}
{{- fail (printf "cache.size: %s is not more than cache.bytes, %d: Kubernetes would evict the pod when the cache has filled; raise the one or lower the other" .Values.cache.size (int64 .Values.cache.bytes)) -}}
{{- end -}}
{{- with .Values.serviceMonitor -}}
{{- if and .keySecret.name (not (and .enabled $.Values.auth.secret)) -}}
{{- fail "serviceMonitor.keySecret: has no effect without serviceMonitor.enabled: true and auth.secret" -}}
{{- end -}}
{{- if and (or .tls.caSecret.name .tls.serverName) (not (and .enabled (include "ie-serving.restTls" $))) -}}
{{- fail "serviceMonitor.tls: has no effect without serviceMonitor.enabled: true and TLS on the REST port" -}}
{{- end -}}
{{- end -}}
{{- with .Values.autoscaling -}}
{{- if and (or .keda.serverAddress .keda.query) (not (and .enabled (eq .kind "keda"))) -}}
{{- fail "autoscaling.keda: has no effect without autoscaling.enabled: true and autoscaling.kind: keda" -}}
{{- end -}}
{{- if and (not .enabled) (or (ne (int .minReplicas) 2) (ne (int .maxReplicas) 10)) -}}
{{- fail "autoscaling.minReplicas, maxReplicas: have no effect without autoscaling.enabled: true; replicas is how many pods there are" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (ne (int .Values.replicas) 1) -}}
{{- fail "replicas: the autoscaler decides; set autoscaling.minReplicas" -}}
{{- end -}}
{{- if eq (int .Values.ports.grpc) (int .Values.ports.rest) -}}
{{- fail "ports: grpc and rest have the same number, and a Service has each port once: change one" -}}
{{- end -}}
{{- with .Values.autoscaling -}}
{{- if lt (int .maxReplicas) (int .minReplicas) -}}
{{- fail "autoscaling: maxReplicas is less than minReplicas" -}}
{{- end -}}
{{- if and .enabled (eq .kind "keda") (not .keda.serverAddress) -}}
{{- fail "autoscaling.keda.serverAddress: missing; give the address of Prometheus" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.gateway.enabled (not .Values.gateway.parentRefs) -}}
{{- fail "gateway.parentRefs: missing; give the Gateway, such as [{name: public, namespace: gateways}]" -}}
{{- end -}}
{{- $hosts := concat .Values.ingress.rest.hosts .Values.ingress.grpc.hosts -}}
{{- if and $hosts (not .Values.ingress.enabled) -}}
{{- fail "ingress: hosts have no effect without ingress.enabled: true" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not $hosts) -}}
{{- fail "ingress.rest.hosts and ingress.grpc.hosts: both are empty; give the names that clients ask" -}}
{{- end -}}
{{- range .Values.ingress.rest.hosts -}}
{{- if has . $.Values.ingress.grpc.hosts -}}
{{- fail (printf "ingress: %s stands among the hosts of rest and grpc: give each names of its own" .) -}}
{{- end -}}
{{- end -}}
{{- if .Values.gateway.enabled -}}
{{- range .Values.gateway.restHostnames -}}
{{- if has . $.Values.gateway.grpcHostnames -}}
{{- fail (printf "gateway: %s stands among restHostnames and grpcHostnames, and a listener refuses one of two kinds of routes for a name: give each names of its own" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
