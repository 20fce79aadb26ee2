package k8stest

import "testing"

// A set is one way to install fastlimit.
type set struct {
	name   string
	render func(*testing.T) objects
	extras []string // the switches that are on: cluster, redis, metrics, proxy, policy
}

func fromValues(values string) func(*testing.T) objects {
	return func(t *testing.T) objects { t.Helper(); return helm(t, values) }
}

func fromFolder(folder string) func(*testing.T) objects {
	return func(t *testing.T) objects { t.Helper(); return kustomize(t, folder) }
}

var sets = []set{
	{"helm: defaults", fromValues(""), nil},
	{"helm: cluster", fromValues(clustered), []string{"cluster"}},
	{"helm: redis", fromValues("redis: {secretName: limits-redis}"), []string{"redis"}},
	{"helm: redis by its password", fromValues(byPassword), []string{"redis"}},
	{"helm: proxy", fromValues(proxied), []string{"proxy"}},
	{"helm: metrics", fromValues("metrics: {enabled: true, secretName: tokens}"), []string{"metrics"}},
	{"helm: everything", fromValues(everything), []string{"cluster", "redis", "metrics", "proxy", "policy"}},
	{"kustomize: base", fromFolder("base"), nil},
	{"kustomize: decision service", fromFolder("overlays/decision-service"), []string{"cluster", "redis"}},
	{"kustomize: proxy", fromFolder("overlays/proxy"), []string{"proxy"}},
}

const (
	clustered  = "cluster: {enabled: true, secretName: limits-cluster}"
	byPassword = `
redis: {secretName: limits-redis, urlKey: "", passwordKey: redis-password}
config:
  redis: {addresses: ["redis:6379"], timeout: 50ms}
`
	proxied = `
replicas: 3
service: {type: LoadBalancer, externalTrafficPolicy: Local, annotations: {a: b}}
config: {upstream: "http://app:8080"}
drain: {delaySeconds: 90, timeoutSeconds: 600}
`
	everything = `
replicas: 5
image: {repository: registry.example.com/fastlimit, tag: v1, pullPolicy: Always}
imagePullSecrets: [{name: registry}]
fullnameOverride: limits
config:
  upstream: {url: ["http://app:8080"], response_timeout: 5s}
  trusted_proxies: [10.0.0.0/8]
  cluster: {accept_bans: true, max_nodes: 9}
  redis: {timeout: 20ms, key_prefix: "${PREFIX}"}
  deny: [{file: /etc/lists/deny.txt}]
  rules: [{name: per-key, key: header:X-Api-Key, rate: 1000000/h, burst: 1000000}]
listener: {headers_on: always}
cluster: {enabled: true, secretName: limits-cluster, secretKey: key}
redis: {secretName: limits-redis, urlKey: where, passwordKey: word}
metrics:
  enabled: true
  secretName: tokens
  readKey: prometheus
  actKey: operator
  serviceMonitor: {enabled: true, interval: 30s, labels: {team: edge}}
  prometheusRule: {enabled: true, labels: {team: edge}}
networkPolicy:
  enabled: true
  metricsFrom: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]
podDisruptionBudget: {maxUnavailable: 20%}
env: [{name: PREFIX, value: "limits:"}]
extraVolumes: [{name: lists, configMap: {name: lists, items: [{key: deny.txt, path: deny.txt}]}}]
extraVolumeMounts: [{name: lists, mountPath: /etc/lists, readOnly: true}]
podAnnotations: {a: b}
podLabels: {team: edge}
priorityClassName: system-cluster-critical
nodeSelector: {disk: ssd}
tolerations: [{key: edge, operator: Exists}]
affinity: {nodeAffinity: {}}
`
)

// each runs a test with every set.
func each(t *testing.T, check func(t *testing.T, s set, all objects)) {
	t.Helper()
	for _, s := range sets {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			check(t, s, s.render(t))
		})
	}
}
