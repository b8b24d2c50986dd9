{{/* What the pods of all parts have in common. */}}

{{/* A value as kcm reads it from the environment. Helm holds numbers as floats, and would write 1e+06; JSON does not. What a
map holds are texts. */}}
{{- define "kcm.text" -}}
{{- if kindIs "map" . -}}
{{- $texts := dict -}}
{{- range $name, $value := . -}}
{{- $_ := set $texts $name (include "kcm.text" $value) -}}
{{- end -}}
{{- toJson $texts -}}
{{- else if kindIs "string" . -}}
{{- . -}}
{{- else -}}
{{- toJson . -}}
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

{{/* The secret of the Kafka client, as a JSON list for the three below: each file has the name of its setting. */}}
{{- define "kcm.kafkaSecret" -}}
{{- $secret := .Values.kafka.propertiesSecret -}}
{{- ternary (list (dict "setting" "kafka_properties" "secret" $secret)) list (not (empty $secret.name)) | toJson -}}
{{- end }}

{{/* A list of dict setting, secret (name, key). What is a file stands in no variable, which every process of a container shows. */}}
{{- define "kcm.secretsEnv" -}}
{{- if . -}}
- name: KCM_SECRETS_DIR
  value: /etc/kcm/secrets
{{- end -}}
{{- end }}

{{- define "kcm.secretsMount" -}}
{{- if . -}}
- name: secrets
  mountPath: /etc/kcm/secrets
  readOnly: true
{{- end -}}
{{- end }}

{{- define "kcm.secretsVolume" -}}
{{- if . -}}
- name: secrets
  projected:
    sources:
      {{- range . }}
      - secret:
          name: {{ .secret.name | quote }}
          items:
            - key: {{ .secret.key | quote }}
              path: {{ .setting | quote }}
      {{- end }}
{{- end -}}
{{- end }}

{{/* dict where, servers: host:port, separated by commas, and a chroot */}}
{{- define "kcm.checkPorts" -}}
{{- range $server := regexFindAll ":[0-9]+(,|/|$)" .servers -1 -}}
{{- if gt (regexFind "[0-9]+" $server | int) 65535 -}}
{{- fail (printf "%s: %s: ports end at 65535" $.where $.servers) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* The names of our services, those of the Ingress, and those of the values: by another one nobody is answered. An address always is. */}}
{{- define "kcm.allowedHosts" -}}
{{- $names := list -}}
{{- range $part := list "exporter" "watcher" "stream" -}}
{{- $service := printf "%s-%s" (include "kcm.fullname" $) $part -}}
{{- $inNamespace := printf "%s.%s" $service $.Release.Namespace -}}
{{- $names = concat $names (list $service $inNamespace (printf "%s.svc" $inNamespace) (printf "%s.svc.cluster.local" $inNamespace)) -}}
{{- end -}}
{{- $asked := ternary .Values.ingress.hosts list .Values.ingress.enabled -}}
{{- join "," (concat $names $asked .Values.web.allowedHosts) -}}
{{- end }}

{{/* dict root, path: how a probe asks. It knows no password: to it these paths say their status alone. */}}
{{- define "kcm.probe" -}}
{{- if .root.Values.web.clientCertificates -}}
tcpSocket:
  port: metrics
{{- else -}}
httpGet:
  path: {{ .path }}
  port: metrics
  {{- if .root.Values.web.tls }}
  scheme: HTTPS
  {{- end }}
{{- end -}}
{{- end }}

{{/* How Prometheus asks: fields of an endpoint. */}}
{{- define "kcm.scrape" -}}
{{- if .Values.web.tls }}
scheme: https
{{- end }}
{{- with .Values.serviceMonitor.tlsConfig }}
tlsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.serviceMonitor.basicAuth }}
basicAuth:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Variables of all parts. */}}
{{- define "kcm.env" -}}
{{- include "kcm.checkPorts" (dict "where" "kafka.bootstrapServers" "servers" .Values.kafka.bootstrapServers) -}}
# The root file system is read-only, and the user has no home.
- name: HOME
  value: /tmp
- name: KCM_BOOTSTRAP_SERVERS
  value: {{ required "kafka.bootstrapServers: name the Kafka that holds the pipeline's topics, such as kafka:9092" .Values.kafka.bootstrapServers | quote }}
{{- if .Values.kafka.properties }}
- name: KCM_CONFIG
  value: /etc/kcm/config/kcm.toml
{{- end }}
{{- if .Values.web.configSecret }}
- name: KCM_WEB_CONFIG_FILE
  value: /etc/kcm/web/web.yaml
{{- end }}
- name: KCM_ALLOWED_HOSTS
  value: {{ include "kcm.allowedHosts" . | quote }}
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
{{- if .Values.web.configSecret }}
- name: web
  mountPath: /etc/kcm/web
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
    sizeLimit: {{ .tmpSizeLimit | quote }}
{{- with .root.Values }}
{{- if .kafka.properties }}
- name: config
  configMap:
    name: {{ include "kcm.fullname" $.root | quote }}
{{- end }}
{{- with .kafka.tlsSecret }}
- name: kafka-tls
  secret:
    secretName: {{ . | quote }}
{{- end }}
{{- with .web.configSecret }}
- name: web
  secret:
    secretName: {{ . | quote }}
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
serviceAccountName: {{ default (include "kcm.serviceAccountName" .root) .account | quote }}
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
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .part.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .part.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .part.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  - {{- toYaml . | nindent 4 }}
    {{- if not (hasKey . "labelSelector") }}
    labelSelector:
      matchLabels:
        {{- $.labels | nindent 8 }}
    {{- end }}
  {{- end }}
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

{{/* A part's values: labels of its pods besides those that are selected by. */}}
{{- define "kcm.podLabels" -}}
{{- with .podLabels -}}
{{- toYaml . -}}
{{- end -}}
{{- end }}

{{/* A part's values: the containers beside its own. */}}
{{- define "kcm.extraContainers" -}}
{{- with .extraContainers -}}
{{- toYaml . -}}
{{- end -}}
{{- end }}

{{/* dict root, part (its values): how many pods may be away. A pod that is not ready serves nobody: it never keeps a node
from being drained. */}}
{{- define "kcm.budget" -}}
maxUnavailable: {{ .part.podDisruptionBudget.maxUnavailable }}
{{- if semverCompare ">=1.27-0" .root.Capabilities.KubeVersion.Version }}
unhealthyPodEvictionPolicy: AlwaysAllow
{{- end }}
{{- end }}
