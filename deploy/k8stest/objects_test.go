package k8stest

import (
	"bufio"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type objects []meta.Object

// newObject makes an object of a kind that may be rendered.
func newObject(version, kind string) (o meta.Object, known bool) {
	switch version + " " + kind {
	case "apps/v1 Deployment":
		o = new(apps.Deployment)
	case "v1 ConfigMap":
		o = new(core.ConfigMap)
	case "v1 Service":
		o = new(core.Service)
	case "v1 ServiceAccount":
		o = new(core.ServiceAccount)
	case "policy/v1 PodDisruptionBudget":
		o = new(policy.PodDisruptionBudget)
	case "networking.k8s.io/v1 NetworkPolicy":
		o = new(networking.NetworkPolicy)
	case "monitoring.coreos.com/v1 ServiceMonitor":
		o = new(monitoring.ServiceMonitor)
	case "monitoring.coreos.com/v1 PrometheusRule":
		o = new(monitoring.PrometheusRule)
	}
	return o, o != nil
}

// of returns the objects of one type.
func of[T meta.Object](all objects) (found []T) {
	for _, o := range all {
		if o, ok := o.(T); ok {
			found = append(found, o)
		}
	}
	return found
}

// only returns the one object of a type.
func only[T meta.Object](t *testing.T, all objects) T {
	t.Helper()
	found := of[T](all)
	if len(found) != 1 {
		t.Fatalf("%d objects of type %T", len(found), *new(T))
	}
	return found[0]
}

// pod is what the Deployment starts.
func (all objects) pod(t *testing.T) *core.PodTemplateSpec {
	t.Helper()
	return &only[*apps.Deployment](t, all).Spec.Template
}

// container is the only one of the pod.
func (all objects) container(t *testing.T) *core.Container {
	t.Helper()
	spec := all.pod(t).Spec
	if len(spec.Containers) != 1 || len(spec.InitContainers) != 0 {
		t.Fatalf("%d containers", len(spec.Containers)+len(spec.InitContainers))
	}
	return &spec.Containers[0]
}

func newReader(text string) *bufio.Reader { return bufio.NewReader(strings.NewReader(text)) }
