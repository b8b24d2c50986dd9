{{/* With networkPolicy.limitEgress, the rules for what the values name; ports alone, because a NetworkPolicy knows no host names. */}}
{{- define "kcm.namedEgress" -}}
{{- if .Values.networkPolicy.limitEgress -}}
{{- $servers := list .Values.kafka.bootstrapServers -}}
{{- if .Values.watcher.enabled -}}
{{- range $watched := .Values.clusters -}}
{{- $servers = append $servers (default $watched.zookeeper $watched.controllers) -}}
{{- end -}}
{{- if include "kcm.zookeeperClusters" . -}}
{{- $servers = append $servers .Values.election.zookeeper -}}
{{- end -}}
{{- end -}}
{{- $ports := list -}}
{{- range $server := regexFindAll ":[0-9]+(,|/|$)" (join "," $servers) -1 -}}
{{- $ports = append $ports (regexFind "[0-9]+" $server | int) -}}
{{- end -}}
{{- /* `helm test` asks the exporter. */ -}}
{{- if .Values.exporter.enabled -}}
{{- $ports = append $ports 9640 -}}
{{- end -}}
# Names of hosts.
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
- ports:
    {{- range $ports | uniq | sortAlpha }}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
{{- if and .Values.stream.enabled .Values.stream.executors.instances }}
# Kubernetes' API: the port of its service, and that of the server behind it, which many networks look at.
- ports:
    - {port: 443, protocol: TCP}
    - {port: 6443, protocol: TCP}
{{- end }}
{{- end -}}
{{- end }}
