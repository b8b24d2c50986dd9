{{/* What the pods of all parts have in common. */}}

{{/* A value as kcm reads it from the environment: helm holds numbers as floats, and would write 1e+06. */}}
{{- define "kcm.text" -}}
{{- if kindIs "float64" . -}}
{{- if eq (floor .) . }}{{ int64 . }}{{ else }}{{ . }}{{ end -}}
{{- else if kindIs "map" . -}}
{{- toJson . -}}
{{- else -}}
{{- . -}}
{{- end -}}
{{- end }}

{{/* A map of kcm's settings as variables; nothing for an empty one. */}}
{{- define "kcm.settingsEnv" -}}
{{- $lines := list -}}
{{- range $name, $value := . -}}
{{- $lines = append $lines (printf "- name: KCM_%s\n  value: %s" (upper $name) (include "kcm.text" $value | quote)) -}}
{{- end -}}
{{- join "\n" $lines -}}
{{- end }}

{{/* dict name (of the variable), secret (name, key) */}}
{{- define "kcm.secretEnv" -}}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret.name }}
      key: {{ .secret.key }}
{{- end }}

{{/* Variables of all parts. */}}
{{- define "kcm.env" -}}
# The root file system is read-only, and the user has no home.
- name: HOME
  value: /tmp
- name: KCM_BOOTSTRAP_SERVERS
  value: {{ required "kafka.bootstrapServers: name the Kafka that holds the pipeline's topics, such as kafka:9092" .Values.kafka.bootstrapServers | quote }}
{{- if .Values.kafka.properties }}
- name: KCM_CONFIG
  value: /etc/kcm/config/kcm.toml
{{- end }}
{{- with .Values.kafka.propertiesSecret }}
{{- if .name }}
{{ include "kcm.secretEnv" (dict "name" "KCM_KAFKA_PROPERTIES" "secret" .) }}
{{- end }}
{{- end }}
{{- with include "kcm.settingsEnv" .Values.settings }}
{{ . }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "kcm.volumeMounts" -}}
- name: tmp
  mountPath: /tmp
{{- if .Values.kafka.properties }}
- name: config
  mountPath: /etc/kcm/config
  readOnly: true
{{- end }}
{{- if .Values.kafka.tlsSecret }}
- name: kafka-tls
  mountPath: /etc/kcm/kafka-tls
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* dict root, tmpSizeLimit */}}
{{- define "kcm.volumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: {{ .tmpSizeLimit }}
{{- with .root.Values }}
{{- if .kafka.properties }}
- name: config
  configMap:
    name: {{ include "kcm.fullname" $.root }}
{{- end }}
{{- with .kafka.tlsSecret }}
- name: kafka-tls
  secret:
    secretName: {{ . }}
{{- end }}
{{- with .extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}

{{- define "kcm.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop:
    - ALL
{{- end }}

{{/* dict root, part (its values), labels (its selector), account (with a token; empty: the common one, without); fields
of the pod that come before its containers */}}
{{- define "kcm.podFields" -}}
serviceAccountName: {{ default (include "kcm.serviceAccountName" .root) .account }}
automountServiceAccountToken: {{ not (empty .account) }}
# A service called kcm would set KCM_PORT, which is a setting.
enableServiceLinks: false
securityContext:
  {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .part.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .part.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .part.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .part.affinity }}
affinity:
  {{- toYaml .part.affinity | nindent 2 }}
{{- else if gt (int (default 1 .part.replicas)) 1 }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- .labels | nindent 14 }}
{{- end }}
{{- end }}

{{/* dict root, annotations: those of a pod; it is made anew when its configuration changes */}}
{{- define "kcm.podAnnotations" -}}
{{- $own := dict -}}
{{- with .root.Values.kafka.properties -}}
{{- $own = dict "checksum/config" (toJson . | sha256sum) -}}
{{- end -}}
{{- with merge $own .annotations -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end }}
