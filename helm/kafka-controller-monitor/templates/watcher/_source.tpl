{{/* How a watcher reaches its cluster: ZooKeeper, or the controllers of a cluster in KRaft mode. All take a dict root, cluster,
watched (its values). */}}

{{/* Where the certificates are mounted. */}}
{{- define "kcm.sourceTlsPath" -}}
{{- ternary "/etc/kcm/controllers-tls" "/etc/kcm/zookeeper-tls" (not (empty .watched.controllers)) -}}
{{- end }}

{{/* The secrets of the source, as a JSON list for kcm.secretsEnv and its like. */}}
{{- define "kcm.sourceSecrets" -}}
{{- $secrets := list -}}
{{- $tls := default dict .watched.tls -}}
{{- $election := .root.Values.election -}}
{{- if .watched.controllers -}}
{{- with (default dict .watched.sasl).passwordSecret -}}
{{- $secrets = append $secrets (dict "setting" "controller_sasl_password" "secret" .) -}}
{{- end -}}
{{- with .watched.tlsKeyPasswordSecret -}}
{{- $secrets = append $secrets (dict "setting" "controller_tls_key_password" "secret" .) -}}
{{- end -}}
{{- else -}}
{{- with .watched.authSecret -}}
{{- $secrets = append $secrets (dict "setting" "zk_auth" "secret" .) -}}
{{- end -}}
{{- if and .watched.tlsKeyPasswordSecret (or $tls.enabled $election.tls) -}}
{{- $secrets = append $secrets (dict "setting" "zk_tls_key_password" "secret" .watched.tlsKeyPasswordSecret) -}}
{{- end -}}
{{- if and $election.path $election.zookeeper $election.authSecret.name -}}
{{- $secrets = append $secrets (dict "setting" "election_auth" "secret" $election.authSecret) -}}
{{- end -}}
{{- end -}}
{{- toJson $secrets -}}
{{- end }}

{{/* The settings of this cluster's watchers: those of all watchers, and its own. What only ZooKeeper has does not reach others. */}}
{{- define "kcm.sourceSettings" -}}
{{- $settings := mergeOverwrite (deepCopy .root.Values.watcher.settings) (default dict .watched.settings) -}}
{{- if .watched.controllers -}}
{{- $settings = omit $settings "session_timeout_s" "zk_watches" "full_resync_s" "resync_reads_per_s" "reconciliation_reads_per_s" -}}
{{- end -}}
{{- include "kcm.settingsEnv" $settings -}}
{{- end }}

{{- define "kcm.sourceEnv" -}}
{{- if .watched.controllers -}}
{{- include "kcm.controllersEnv" . -}}
{{- else -}}
{{- include "kcm.zookeeperEnv" . -}}
{{- end -}}
{{- end }}

{{- define "kcm.controllersEnv" -}}
{{- $tls := default dict .watched.tls -}}
{{- $path := include "kcm.sourceTlsPath" . -}}
- name: KCM_CONTROLLERS
  value: {{ .watched.controllers | quote }}
{{- with .watched.clusterId }}
- name: KCM_CONTROLLER_CLUSTER_ID
  value: {{ . | quote }}
{{- end }}
- name: KCM_CONTROLLER_SECURITY_PROTOCOL
  value: {{ printf "%s%s" (ternary "SASL_" "" (not (empty .watched.sasl))) (ternary "SSL" "PLAINTEXT" (not (empty $tls.enabled))) | quote }}
{{- if $tls.enabled }}
{{- range $setting := list "ca" "cert" "key" }}
{{- with get $tls $setting }}
- name: KCM_CONTROLLER_TLS_{{ upper $setting }}
  value: {{ printf "%s/%s" $path . | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- with .watched.sasl }}
- name: KCM_CONTROLLER_SASL_MECHANISM
  value: {{ .mechanism | quote }}
{{- with .user }}
- name: KCM_CONTROLLER_SASL_USER
  value: {{ . | quote }}
{{- end }}
{{- with .tokenSecret }}
- name: KCM_CONTROLLER_SASL_TOKEN_FILE
  value: {{ printf "/etc/kcm/controllers-token/%s" .key | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- define "kcm.zookeeperEnv" -}}
{{- $tls := default dict .watched.tls -}}
{{- $path := include "kcm.sourceTlsPath" . -}}
{{- $election := .root.Values.election -}}
- name: KCM_ZOOKEEPER
  value: {{ .watched.zookeeper | quote }}
{{- if $tls.enabled }}
- name: KCM_ZK_TLS
  value: "true"
{{- end }}
{{- if or $tls.enabled $election.tls }}
{{- range $setting := list "ca" "cert" "key" }}
{{- with get $tls $setting }}
- name: KCM_ZK_TLS_{{ upper $setting }}
  value: {{ printf "%s/%s" $path . | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- if $election.path }}
- name: KCM_ELECTION_PATH
  value: {{ $election.path | quote }}
{{- if $election.zookeeper }}
- name: KCM_ELECTION_ZOOKEEPER
  value: {{ $election.zookeeper | quote }}
{{- if $election.tls }}
- name: KCM_ELECTION_TLS
  value: "true"
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Certificates, and the token of OAUTHBEARER: a token is a file of its own, which is read again at each login. */}}
{{- define "kcm.sourceMounts" -}}
{{- if (default dict .watched.tls).secret -}}
- name: watched-tls
  mountPath: {{ include "kcm.sourceTlsPath" . }}
  readOnly: true
{{- end }}
{{- if (default dict .watched.sasl).tokenSecret }}
- name: watched-token
  mountPath: /etc/kcm/controllers-token
  readOnly: true
{{- end }}
{{- end }}

{{- define "kcm.sourceVolumes" -}}
{{- with (default dict .watched.tls).secret -}}
- name: watched-tls
  secret:
    secretName: {{ . | quote }}
{{- end }}
{{- with (default dict .watched.sasl).tokenSecret }}
- name: watched-token
  secret:
    secretName: {{ .name | quote }}
    items:
      - key: {{ .key | quote }}
        path: {{ .key | quote }}
{{- end }}
{{- end }}
