{{/* Names and labels. All take the root context, or a dict with "root" and what they name. */}}

{{- define "kcm.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{/* At most 40 characters: Kubernetes adds to the names of pods and revisions, and 63 is its limit. */}}
{{- define "kcm.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "kcm.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "kcm.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{/* The name of a watched cluster as part of a resource's name: a name that had to change gets a hash, so that two never meet. */}}
{{- define "kcm.clusterSlug" -}}
{{- $slug := . | lower | replace "." "-" | replace "_" "-" | trunc 12 | trimSuffix "-" -}}
{{- if eq $slug . -}}
{{- $slug -}}
{{- else -}}
{{- printf "%s-%s" $slug (sha256sum . | trunc 6) -}}
{{- end -}}
{{- end }}

{{/* dict root, cluster */}}
{{- define "kcm.watcherName" -}}
{{- printf "%s-w-%s" (include "kcm.fullname" .root) (include "kcm.clusterSlug" .cluster) -}}
{{- end }}

{{- define "kcm.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "kcm.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end }}

{{- define "kcm.releaseLabels" -}}
app.kubernetes.io/name: {{ include "kcm.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* dict root, component, cluster (of a watcher) */}}
{{- define "kcm.selectorLabels" -}}
{{ include "kcm.releaseLabels" .root }}
app.kubernetes.io/component: {{ .component }}
{{- with .cluster }}
kafka-controller-monitor/cluster: {{ include "kcm.clusterSlug" . }}
{{- end }}
{{- end }}

{{- define "kcm.chartLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "kcm.labels" -}}
{{ include "kcm.selectorLabels" . }}
{{ include "kcm.chartLabels" .root }}
{{- end }}

{{/* Labels of what belongs to no single part. */}}
{{- define "kcm.commonLabels" -}}
{{ include "kcm.releaseLabels" . }}
{{ include "kcm.chartLabels" . }}
{{- end }}

{{/* dict root, repository */}}
{{- define "kcm.image" -}}
{{- $image := .root.Values.image -}}
{{- $path := ternary (printf "%s/%s" $image.registry .repository) .repository (ne $image.registry "") -}}
{{- printf "%s:%s" $path (default .root.Chart.AppVersion $image.tag) -}}
{{- end }}
