{{/* The rules with what the chart knows and what the values say: which clusters there are, where the runbooks are. */}}

{{/* Where alerts link to: the value, else the exporter's own service. */}}
{{- define "kcm.runbooks" -}}
{{- with .Values.prometheusRule.runbookBaseUrl -}}
{{- trimSuffix "/" . -}}
{{- else -}}
{{- $scheme := ternary "https" "http" (.Values.web.tls | default false) -}}
{{- printf "%s://%s-exporter.%s.svc:%v/runbooks" $scheme (include "kcm.fullname" .) .Release.Namespace .Values.exporter.service.port -}}
{{- end -}}
{{- end -}}

{{/* The expression of an alert for what is installed; empty: there is nothing that it could be about. */}}
{{- define "kcm.alertExpr" -}}
{{- $values := .root.Values -}}
{{- $expr := .rule.expr -}}
{{- if eq .rule.alert "KcmNotServed" -}}
  {{- $absent := list -}}
  {{- if $values.exporter.enabled -}}
  {{- range $cluster, $_ := $values.clusters -}}
  {{- $absent = append $absent (printf "absent(kcm_cluster_up{cluster=%q})" $cluster) -}}
  {{- end -}}
  {{- end -}}
  {{- join " or " $absent -}}
{{- else if and (eq .rule.alert "KcmNoWatcherLeads") $values.watcher.enabled $values.serviceMonitor.enabled -}}
  {{/* The chart's watchers are scraped: none leads while there is none, whatever was scraped before. */}}
  {{- $absent := list -}}
  {{- range $cluster, $_ := $values.clusters -}}
  {{- $leads := printf "absent(sum(kcm_watcher_leader{cluster=%q}) > 0)" $cluster -}}
  {{- $absent = append $absent (printf "label_replace(%s, \"cluster\", %q, \"\", \"\")" $leads $cluster) -}}
  {{- end -}}
  {{- printf "(%s) > 0" (join " or " $absent) -}}
{{- else if eq .rule.alert "KcmStandbyMissing" -}}
  {{- if gt (int $values.watcher.replicas) 1 -}}
  {{- $names := list -}}
  {{- range $cluster, $_ := $values.clusters -}}
  {{- $names = append $names (regexQuoteMeta $cluster) -}}
  {{- end -}}
  {{- printf "(count by (cluster) (kcm_watcher_leader{cluster=~%q})) < %d" (join "|" $names) (int $values.watcher.replicas) -}}
  {{- end -}}
{{- else if eq .rule.alert "KcmCheckpointFull" -}}
  {{- if and $values.stream.enabled $values.stream.persistence.enabled -}}
  {{- $made := printf "checkpoint-%s-stream-0" (include "kcm.fullname" .root) -}}
  {{- $claim := printf "namespace=%q, persistentvolumeclaim=%q" .root.Release.Namespace ($values.stream.persistence.existingClaim | default $made) -}}
  {{- replace "persistentvolumeclaim=~\"checkpoint-.*\"" $claim $expr -}}
  {{- end -}}
{{- else -}}
  {{- $expr -}}
{{- end -}}
{{- end -}}

{{/* Fails for what prometheusRule.alerts asks in vain: a name that no alert has, a threshold of one that compares with no number. */}}
{{- define "kcm.checkAlerts" -}}
{{- $wanted := .Values.prometheusRule.alerts -}}
{{- $names := list -}}
{{- range $path, $_ := .Files.Glob "files/rules/*.yaml" -}}
{{- range (fromYaml ($.Files.Get $path)).groups -}}
{{- range .rules -}}
  {{- $names = append $names .alert -}}
  {{- if and (hasKey (dig .alert dict $wanted) "threshold") (not (regexMatch "[<>=]=? -?[0-9.e-]+$" .expr)) -}}
  {{- fail (printf "prometheusRule.alerts.%s.threshold: this alert compares with no number" .alert) -}}
  {{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $name, $_ := $wanted -}}
{{- if not (has $name $names) -}}
{{- fail (printf "prometheusRule.alerts: there is no alert %s; there are %s" $name (join ", " $names)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What the values change of alerts, as the exporter's setting `alerts`, by which the live page judges; empty: nothing. */}}
{{- define "kcm.changedAlerts" -}}
{{- include "kcm.checkAlerts" . -}}
{{- $changed := dict -}}
{{- range $name, $wanted := .Values.prometheusRule.alerts -}}
{{- $_ := set $changed $name (pick $wanted "enabled" "threshold" "for" "severity") -}}
{{- end -}}
{{- if $changed -}}
{{- toJson $changed -}}
{{- end -}}
{{- end -}}

{{/* One alert as the values want it; empty: it is disabled, or there is nothing that it could be about. */}}
{{- define "kcm.alert" -}}
{{- $rule := deepCopy .rule -}}
{{- $wanted := dig $rule.alert dict .root.Values.prometheusRule.alerts -}}
{{- $expr := include "kcm.alertExpr" . -}}
{{- if and $expr (dig "enabled" true $wanted) -}}
{{- if hasKey $wanted "threshold" -}}
  {{- $expr = regexReplaceAll "([<>=]=?) -?[0-9.e-]+$" $expr (printf "${1} %s" (toString $wanted.threshold)) -}}
{{- end -}}
{{- $_ := set $rule "expr" $expr -}}
{{- $_ := set $rule "for" (dig "for" $rule.for $wanted) -}}
{{- $severity := dict "severity" (dig "severity" $rule.labels.severity $wanted) -}}
{{- $_ := set $rule "labels" (mergeOverwrite (deepCopy (dig "labels" dict $wanted)) $severity) -}}
{{- $page := printf "%s/%s%s" (include "kcm.runbooks" .root) $rule.alert .root.Values.prometheusRule.runbookSuffix -}}
{{- $_ := set $rule.annotations "runbook_url" $page -}}
{{- toYaml $rule -}}
{{- end -}}
{{- end -}}
