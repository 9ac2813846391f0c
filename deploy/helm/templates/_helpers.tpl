{{- define "embedwell.name" -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "embedwell.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "embedwell.tag" -}}
{{- .Values.image.tag | default (printf "%s%s" .Chart.AppVersion (ternary "-cuda" "" .Values.gpu.enabled)) }}
{{- end }}

{{- define "embedwell.labels" -}}
{{ include "embedwell.selector" . }}
app.kubernetes.io/version: {{ include "embedwell.tag" . | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "embedwell.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "embedwell.name" .) }}{{ else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{- define "embedwell.checkBatches" -}}
{{- if and .Values.batchVolume.enabled (or .Values.autoscaling.enabled (gt (int .Values.replicas) 1)) }}
{{- fail "batchVolume needs a single server, because servers do not share batches: set replicas to 1 and autoscaling.enabled to false" }}
{{- end }}
{{- with .Values.settings.batch_folder }}
{{- $folder := printf "%s/" (trimSuffix "/" .) }}
{{- $paths := list "/tmp" }}
{{- if $.Values.batchVolume.enabled }}{{ $paths = append $paths . }}{{ end }}
{{- range $.Values.extraVolumeMounts }}{{ $paths = append $paths .mountPath }}{{ end }}
{{- $mounted := false }}
{{- range $paths }}{{ if hasPrefix (printf "%s/" (trimSuffix "/" .)) $folder }}{{ $mounted = true }}{{ end }}{{ end }}
{{- if not $mounted }}
{{- fail (printf "settings.batch_folder %s is on the read-only root of the container: set batchVolume.enabled, or mount a volume there with extraVolumes and extraVolumeMounts" .) }}
{{- end }}
{{- end }}
{{- end }}
