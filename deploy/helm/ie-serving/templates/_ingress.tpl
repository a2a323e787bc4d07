{{- /*
One Ingress. Requests alone: metrics, reloads and other probes stay inside, as with routes of the Gateway API.
root: the chart. name: of the Ingress. part: values of its kind. port: of the Service.
prefixes: of paths that are let in. exact: a path that is let in alone.
*/ -}}
{{- define "ie-serving.ingress" -}}
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: {{ .name }}
  {{- include "ie-serving.metadata" .root | nindent 2 }}
  {{- with .part.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- with .root.Values.ingress.className }}
  ingressClassName: {{ . }}
  {{- end }}
  {{- with .root.Values.ingress.tlsSecret }}
  tls:
    - secretName: {{ . }}
      hosts:
        {{- toYaml $.part.hosts | nindent 8 }}
  {{- end }}
  rules:
    {{- range .part.hosts }}
    - host: {{ . | quote }}
      http:
        paths:
          {{- range append $.prefixes $.exact }}
          - path: {{ . }}
            pathType: {{ eq . $.exact | ternary "Exact" "Prefix" }}
            backend:
              service:
                name: {{ include "ie-serving.fullname" $.root }}
                port:
                  number: {{ $.port }}
          {{- end }}
    {{- end }}
{{- end -}}
