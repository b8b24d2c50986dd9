{{/* Spark on Kubernetes: the driver in the fold's pod, in client mode; it makes the executors' pods itself. */}}

{{/* The account of the driver's pod; empty where there are no executors. */}}
{{- define "kcm.driverAccount" -}}
{{- if .Values.stream.executors.instances -}}
{{- if .Values.serviceAccount.create -}}
{{- printf "%s-stream" (include "kcm.fullname" .) -}}
{{- else -}}
{{- required "serviceAccount.name: stream.executors give the driver's account a Role for pods, which the namespace's default account should not have; name one, or set serviceAccount.create=true" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* The claim of the checkpoint's volume. */}}
{{- define "kcm.checkpointClaim" -}}
{{- $persistence := .Values.stream.persistence -}}
{{- if not $persistence.enabled -}}
{{- fail "stream.executors: they share the checkpoint; set stream.persistence.enabled=true" -}}
{{- end -}}
{{- if $persistence.existingClaim -}}
{{- $persistence.existingClaim -}}
{{- else if ne $persistence.accessMode "ReadWriteMany" -}}
{{- fail "stream.executors: they share the checkpoint; set stream.persistence.accessMode=ReadWriteMany, or name a claim of that mode in existingClaim" -}}
{{- else -}}
{{- printf "checkpoint-%s-stream-0" (include "kcm.fullname" .) -}}
{{- end -}}
{{- end }}

{{/* Spark's properties; those of stream.settings.spark_conf win. */}}
{{- define "kcm.sparkConf" -}}
{{- $name := printf "%s-stream" (include "kcm.fullname" .) -}}
{{- with .Values.stream.executors -}}
spark.executor.instances: {{ .instances | quote }}
spark.executor.cores: {{ .cores | quote }}
spark.executor.memory: {{ .memory | quote }}
spark.executor.memoryOverhead: {{ .memoryOverhead | quote }}
{{- end }}
# Where executors find the driver. Spark's own random ports would pass no NetworkPolicy.
spark.driver.host: {{ printf "%s-0.%s.%s.svc" $name $name .Release.Namespace | quote }}
spark.driver.bindAddress: {{ .Values.listenAddress | quote }}
spark.driver.port: "7078"
spark.driver.blockManager.port: "7079"
spark.blockManager.port: "7079"
# The executors' pods end with this one.
spark.kubernetes.driver.pod.name: {{ printf "%s-0" $name | quote }}
spark.kubernetes.namespace: {{ .Release.Namespace | quote }}
spark.kubernetes.container.image: {{ include "kcm.image" (dict "root" . "repository" .Values.image.sparkRepository) | quote }}
spark.kubernetes.container.image.pullPolicy: {{ .Values.image.pullPolicy | quote }}
spark.kubernetes.executor.podTemplateFile: /etc/kcm/executor/pod.yaml
spark.kubernetes.executor.podTemplateContainerName: executor
# What would need rights on more than pods.
spark.kubernetes.executor.disableConfigMap: "true"
spark.kubernetes.driver.service.deleteOnTermination: "false"
spark.kubernetes.driver.ownPersistentVolumeClaim: "false"
spark.kubernetes.driver.reusePersistentVolumeClaim: "false"
# Temporary files are not for the shared volume.
spark.local.dir: /tmp
# An executor that has a cluster's state loaded is worth a short wait.
spark.locality.wait: 500ms
{{- end }}

{{/* What the driver makes the executors' pods from: Spark adds the image, the arguments and the resources. */}}
{{- define "kcm.executorPod" -}}
{{- $labels := include "kcm.selectorLabels" (dict "root" . "component" "executor") -}}
apiVersion: v1
kind: Pod
metadata:
  labels:
    {{- include "kcm.labels" (dict "root" . "component" "executor") | nindent 4 }}
    {{- with include "kcm.podLabels" .Values.stream.executors }}
    {{- . | nindent 4 }}
    {{- end }}
  {{- with .Values.stream.executors.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- include "kcm.podFields" (dict "root" . "part" .Values.stream.executors "labels" $labels) | nindent 2 }}
  restartPolicy: Never
  containers:
    - name: executor
      command: ["spark-executor"]
      # Executors load jars into the folder that they run in.
      workingDir: /tmp
      env:
        # The root file system is read-only, and the user has no home.
        - name: HOME
          value: /tmp
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      securityContext:
        {{- include "kcm.containerSecurity" . | nindent 8 }}
      volumeMounts:
        {{- include "kcm.volumeMounts" . | nindent 8 }}
        # Spark takes a volume of this name for its temporary files.
        - name: spark-local-dir-1
          mountPath: /var/tmp/spark
        - name: checkpoint
          mountPath: /var/lib/kcm
  volumes:
    {{- include "kcm.volumes" (dict "root" . "tmpSizeLimit" .Values.stream.executors.tmpSizeLimit) | nindent 4 }}
    - name: spark-local-dir-1
      emptyDir:
        sizeLimit: {{ .Values.stream.executors.tmpSizeLimit | quote }}
    - name: checkpoint
      persistentVolumeClaim:
        claimName: {{ include "kcm.checkpointClaim" . | quote }}
{{- end }}

{{/* Driver and executors, as peers of a NetworkPolicy. */}}
{{- define "kcm.sparkPeers" -}}
- podSelector:
    matchLabels:
      {{- include "kcm.releaseLabels" . | nindent 6 }}
    matchExpressions:
      - key: app.kubernetes.io/component
        operator: In
        values: [stream, executor]
{{- end }}
