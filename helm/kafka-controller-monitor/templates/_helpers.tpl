{{/* Names and labels. All take the root context, or a dict with "root" and what they name. */}}

{{- define "kcm.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimAll "-" -}}
{{- end }}

{{/* At most 40 characters: Kubernetes adds to the names of pods and revisions, and 63 is its limit. Names of services have no
dots, as a release's may, and begin with a letter. */}}
{{- define "kcm.fullname" -}}
{{- $name := .Values.fullnameOverride -}}
{{- if not $name -}}
{{- $release := .Release.Name | replace "." "-" -}}
{{- $name = ternary $release (printf "%s-%s" $release (include "kcm.name" .)) (contains (include "kcm.name" .) $release) -}}
{{- end -}}
{{- if not (regexMatch "^[a-z]" $name) -}}
{{- fail (printf "fullnameOverride: a service's name begins with a letter, and %s does not; give a name such as kcm" $name) -}}
{{- end -}}
{{- $name | trunc 40 | trimAll "-" -}}
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
app.kubernetes.io/name: {{ include "kcm.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* dict root, component, cluster (of a watcher) */}}
{{- define "kcm.selectorLabels" -}}
{{ include "kcm.releaseLabels" .root }}
app.kubernetes.io/component: {{ .component | quote }}
{{- with .cluster }}
kafka-controller-monitor/cluster: {{ include "kcm.clusterSlug" . | quote }}
{{- end }}
{{- end }}

{{- define "kcm.chartLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
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

{{/* The names of the watched clusters that ZooKeeper holds, separated by commas; the others are in KRaft mode. */}}
{{- define "kcm.zookeeperClusters" -}}
{{- $names := list -}}
{{- range $cluster, $watched := .Values.clusters -}}
{{- if not $watched.controllers -}}
{{- $names = append $names $cluster -}}
{{- end -}}
{{- end -}}
{{- join ", " $names -}}
{{- end }}
