package k8stest

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Helm refuses values that would have no effect, or a wrong one.
func TestWrongValues(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"replica: 3":                                 "'replica' not allowed",
		"replicas: many":                             "/replicas",
		"replicas: 0":                                "/replicas",
		"replicas: 2.5":                              "/replicas",
		"image: {repo: x}":                           "'repo' not allowed",
		"image: {tag: 1.2}":                          "/image/tag",
		"service: {port: http}":                      "/service/port",
		"service: {type: LoadBalanser}":              "/service/type",
		"config: {listen: ':80'}":                    "/config/listen",
		"config: {admin: ':8081'}":                   "/config/admin",
		"config: {watch: false}":                     "/config/watch",
		"config: {drain: {delay: 1s}}":               "/config/drain",
		"config: {rules: null}":                      "/config",
		"listener: {address: ':80'}":                 "/listener/address",
		"drain: {delaySeconds: 5s}":                  "/drain/delaySeconds",
		"cluster: {enabled: yes please}":             "/cluster/enabled",
		"cluster: {enabled: true}":                   "/cluster/secretName",
		"cluster: {secret: x}":                       "'secret' not allowed",
		"redis: {url: x}":                            "'url' not allowed",
		"metrics: {enabled: true}":                   "/metrics/secretName",
		"metrics: {serviceMonitor: {enabled: 1}}":    "/metrics/serviceMonitor/enabled",
		"metrics: {serviceMonitor: {enabled: true}}": "/metrics/serviceMonitor/enabled",
		"metrics: {enabled: true, secretName: x, serviceMonitor: {every: x}}": "'every' not allowed",
		"networkPolicy: {metricsFrom: monitoring}":                            "/networkPolicy/metricsFrom",
		"podDisruptionBudget: {maxUnavailable: half}":                         "/podDisruptionBudget/maxUnavailable",
		"podAnnotations: {a: 1}":                                              "/podAnnotations/a",
		"env: [A=b]":                                                          "/env/0",
	} {
		if _, err := renderChart(values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", values, err, want)
		}
	}
}

// Each value has a place in the schema, each place a value, and each value a comment.
func TestSchemaHasAllValues(t *testing.T) {
	t.Parallel()
	var schema, values map[string]any
	read := func(name string, into any) string {
		text, err := os.ReadFile(filepath.Join(chartFolder, name))
		must(t, err)
		must(t, yaml.UnmarshalStrict(text, into))
		return string(text)
	}
	read("values.schema.json", &schema)
	text := read("values.yaml", &values)
	sameNames(t, "values", schema, values)
	if strings.Count(text, "\n# ")+strings.Count(text, "\n  # ") < 30 {
		t.Error("values.yaml does not say what values are for")
	}
}

// sameNames descends where the schema is strict.
func sameNames(t *testing.T, at string, schema, values map[string]any) {
	t.Helper()
	properties, _ := schema["properties"].(map[string]any)
	for name, value := range values {
		inner, ok := properties[name].(map[string]any)
		if !ok {
			t.Errorf("%s.%s is not in the schema", at, name)
			continue
		}
		if value, ok := value.(map[string]any); ok && inner["additionalProperties"] == false {
			sameNames(t, at+"."+name, inner, value)
		}
	}
	for name := range properties {
		if _, ok := values[name]; !ok && name != "global" {
			t.Errorf("%s.%s has no default", at, name)
		}
	}
}

// The chart's alerts are those that Prometheus has without it. Make the copy again with
// cp deploy/prometheus/alerts.yml deploy/helm/fastlimit/.
func TestAlertsAreTheSame(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile(filepath.Join("..", "prometheus", "alerts.yml"))
	must(t, err)
	if got, err := os.ReadFile(filepath.Join(chartFolder, "alerts.yml")); err != nil || string(got) != string(want) {
		t.Errorf("the copy in the chart differs: %v", err)
	}
	var alerts monitoring.PrometheusRuleSpec
	must(t, yaml.UnmarshalStrict(want, &alerts))
	if rendered := only[*monitoring.PrometheusRule](t, helm(t, everything)).Spec; !reflect.DeepEqual(rendered, alerts) || len(alerts.Groups[0].Rules) < 10 {
		t.Errorf("rendered as %+v", rendered)
	}
}

// The base and the chart by default run the same pod.
func TestBaseIsTheChart(t *testing.T) {
	t.Parallel()
	chart, base := helm(t, "fullnameOverride: fastlimit"), kustomize(t, "base")
	same := func(what string, a, b any) {
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s: the chart has\n%+v\nthe base has\n%+v", what, a, b)
		}
	}
	spec := func(all objects) core.PodSpec {
		s := *all.pod(t).Spec.DeepCopy()
		s.TopologySpreadConstraints[0].LabelSelector = nil // which differs
		return s
	}
	same("pod", spec(chart), spec(base))
	same("strategy", only[*apps.Deployment](t, chart).Spec.Strategy, only[*apps.Deployment](t, base).Spec.Strategy)
	same("ports", only[*core.Service](t, chart).Spec.Ports, only[*core.Service](t, base).Spec.Ports)
	config := configOf(t, chart)
	delete(config, "trusted_proxies")
	same("configuration", config, configOf(t, base))
}

// A change that a reload cannot make replaces the pods, and no other does.
func TestOnlyRestartsRollPods(t *testing.T) {
	t.Parallel()
	sum := func(values string) string {
		s := helm(t, values).pod(t).Annotations["fastlimit/restart"]
		if len(s) != 64 {
			t.Fatalf("sum %q", s)
		}
		return s
	}
	defaults := sum("")
	for values, rolls := range map[string]bool{
		"config: {rules: [{name: a, rate: 1/s}]}": false,
		"config: {deny: [192.0.2.0/24]}":          false,
		"config: {deny_status: 403}":              false,
		"listener: {headers_on: always}":          false,
		"drain: {timeoutSeconds: 20}":             false, // the pod's grace period changes then
		"config: {memory: 32MiB}":                 true,
		"config: {denial_logs: 0}":                true,
		"config: {upstream: 'http://app'}":        true,
		"redis: {secretName: a}":                  true,
		clustered:                                 true,
		"metrics: {enabled: true, secretName: a}": true,
	} {
		if changed := sum(values) != defaults; changed != rolls {
			t.Errorf("%s: rolls the pods: %v", values, changed)
		}
	}
	if a, b := sum("config: {upstream: 'http://a'}"), sum("config: {upstream: 'http://b'}"); a != b {
		t.Error("another upstream rolls the pods")
	}
}
