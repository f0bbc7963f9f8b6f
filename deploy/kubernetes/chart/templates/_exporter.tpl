{{- define "virtscope.labels" -}}
app.kubernetes.io/name: virtscope
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* A container: exporter, its capabilities, and its options beside those of values.yaml. */}}
{{- define "virtscope.container" -}}
{{- $of := index .root.Values .exporter -}}
- name: {{ .exporter }}
  image: {{ required "image.repository: push the image of exporters/Dockerfile to your registry, and name it here" .root.Values.image.repository }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  args: {{ concat (list (printf "virtscope.%s" .exporter) (printf "--web.listen-address=:%v" $of.port)) .options $of.args | toJson }}
  ports: [{name: {{ .exporter }}, containerPort: {{ $of.port }}}]
  securityContext:
    {{- if .capabilities }}
    runAsUser: 0  # others have no use of added capabilities
    capabilities: {drop: [ALL], add: {{ .capabilities | toJson }}}
    {{- else }}
    runAsNonRoot: true
    runAsUser: 65534
    capabilities: {drop: [ALL]}
    {{- end }}
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
  {{- $healthy := dict "path" "/-/healthy" "port" .exporter }}
  {{- $probe := dict "httpGet" $healthy "periodSeconds" 30 "timeoutSeconds" 5 | toJson }}
  # Its request alone may be all that a busy node gives it.
  startupProbe: {{ dict "httpGet" $healthy "periodSeconds" 10 "timeoutSeconds" 5 "failureThreshold" 60 | toJson }}
  livenessProbe: {{ $probe }}
  readinessProbe: {{ $probe }}
  resources: {{ $of.resources | toJson }}
  volumeMounts: [{name: cgroup, mountPath: /sys/fs/cgroup, readOnly: true}]
{{- end }}
