{{/* What kcm would refuse at its start, or would not heed: refused before anything is installed. */}}

{{/* The root context; the election is for the watchers of clusters that ZooKeeper holds. */}}
{{- define "kcm.checkElection" -}}
{{- $election := .Values.election -}}
{{- if and (not $election.path) (gt (int .Values.watcher.replicas) 1) -}}
{{- fail "watcher.replicas: without election.path a cluster has one watcher; give a path such as /kcm/election, or set watcher.replicas=1" -}}
{{- end -}}
{{- if and $election.zookeeper (not $election.path) -}}
{{- fail "election.zookeeper: without election.path nobody is elected; give a path such as /kcm/election" -}}
{{- end -}}
{{- if and (or $election.tls $election.authSecret.name) (not $election.zookeeper) -}}
{{- fail "election.tls, election.authSecret: they are for election.zookeeper, which is not given; the watched ensemble has clusters.NAME.tls and clusters.NAME.authSecret" -}}
{{- end -}}
{{- include "kcm.checkPorts" (dict "where" "election.zookeeper" "servers" $election.zookeeper) -}}
{{- range $name := splitList "/" $election.path -}}
{{- if has $name (list "." "..") -}}
{{- fail (printf "election.path: %s is no path of ZooKeeper; give one such as /kcm/election" $election.path) -}}
{{- end -}}
{{- end -}}
{{- if regexMatch "^/(controller|controller_epoch|brokers|admin|isr_change_notification|log_dir_event_notification|cluster|feature|migration|config/(topics|brokers|changes))(/|$)" $election.path -}}
{{- fail (printf "election.path: %s is below Kafka's own znodes; give a path such as /kcm/election" $election.path) -}}
{{- end -}}
{{- end }}

{{/* dict root, cluster, watched (its values) */}}
{{- define "kcm.checkCluster" -}}
{{- range $key := list "zookeeper" "controllers" -}}
{{- include "kcm.checkPorts" (dict "where" (printf "clusters.%s.%s" $.cluster $key) "servers" (default "" (get $.watched $key))) -}}
{{- end -}}
{{- $tls := default dict .watched.tls -}}
{{- $where := printf "clusters.%s.tls" .cluster -}}
{{- $electsByTls := and .root.Values.election.tls (not .watched.controllers) -}}
{{- if and $tls.secret (not (or $tls.enabled $electsByTls)) -}}
{{- fail (printf "%s: it names a secret, and nothing is connected to by TLS; set %s.enabled=true" $where $where) -}}
{{- end -}}
{{- if and .watched.tlsKeyPasswordSecret (not $tls.key) -}}
{{- fail (printf "clusters.%s.tlsKeyPasswordSecret: there is no key that it would open; give %s.key" .cluster $where) -}}
{{- end -}}
{{- end }}
