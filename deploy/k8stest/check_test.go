package k8stest

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// selects reports whether a selector has labels of its own and all of them are set.
func selects(selector, set map[string]string) bool {
	return len(selector) > 0 && labels.SelectorFromSet(selector).Matches(labels.Set(set))
}

// Whatever selects pods selects those of the Deployment.
func TestSelectorsMatch(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s set, all objects) {
		deployment, pod := only[*apps.Deployment](t, all), all.pod(t)
		selectors := map[string]*meta.LabelSelector{"Deployment": deployment.Spec.Selector, "PodDisruptionBudget": only[*policy.PodDisruptionBudget](t, all).Spec.Selector}
		for i := range pod.Spec.TopologySpreadConstraints {
			selectors["topology spread"] = pod.Spec.TopologySpreadConstraints[i].LabelSelector
		}
		for _, service := range of[*core.Service](all) {
			selectors["Service "+service.Name] = &meta.LabelSelector{MatchLabels: service.Spec.Selector}
		}
		for _, p := range of[*networking.NetworkPolicy](all) {
			selectors["NetworkPolicy"] = &p.Spec.PodSelector
			for _, rule := range p.Spec.Ingress {
				for _, from := range rule.From {
					if from.PodSelector != nil {
						selectors["NetworkPolicy's peers"] = from.PodSelector
					}
				}
			}
		}
		for what, selector := range selectors {
			if selector == nil || len(selector.MatchExpressions) > 0 || !selects(selector.MatchLabels, pod.Labels) {
				t.Errorf("%s selects %v, and pods have %v", what, selector, pod.Labels)
			}
		}
		if len(selectors) < 4 || slices.Contains(s.extras, "policy") && len(selectors) < 8 {
			t.Errorf("only %d selectors found", len(selectors))
		}
	})
}

// A Service leads to a port that the container has, of its protocol.
func TestPortsExist(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s set, all objects) {
		has := func(name intstr.IntOrString, protocol core.Protocol) bool {
			return slices.ContainsFunc(all.container(t).Ports, func(p core.ContainerPort) bool {
				return p.Name == name.StrVal && protocolOf(p.Protocol) == protocolOf(protocol)
			})
		}
		for _, service := range of[*core.Service](all) {
			for _, port := range service.Spec.Ports {
				if !has(port.TargetPort, port.Protocol) {
					t.Errorf("Service %s: the container has no port %v of %s", service.Name, &port.TargetPort, protocolOf(port.Protocol))
				}
				if port.Name != port.TargetPort.StrVal {
					t.Errorf("Service %s: port %s leads to %v", service.Name, port.Name, &port.TargetPort)
				}
			}
		}
		for _, p := range of[*networking.NetworkPolicy](all) {
			for _, rule := range p.Spec.Ingress {
				for _, port := range rule.Ports {
					var protocol core.Protocol
					if port.Protocol != nil {
						protocol = *port.Protocol
					}
					if !has(*port.Port, protocol) {
						t.Errorf("NetworkPolicy: the container has no port %v of %s", port.Port, protocolOf(protocol))
					}
				}
			}
		}
		var names []string
		for _, port := range all.container(t).Ports {
			names = append(names, fmt.Sprintf("%s %d", port.Name, port.ContainerPort))
		}
		want := []string{"http 8080"}
		if slices.Contains(s.extras, "metrics") {
			want = append(want, "admin 8081")
		}
		if slices.Contains(s.extras, "cluster") {
			want = append(want, "nodes-tcp 7946", "nodes-udp 7946")
		}
		slices.Sort(names)
		slices.Sort(want)
		if !slices.Equal(names, want) {
			t.Errorf("ports %q, want %q", names, want)
		}
	})
}

func protocolOf(p core.Protocol) core.Protocol {
	if p == "" {
		return core.ProtocolTCP
	}
	return p
}

// The Service for traffic does not lead to admin, which is on loopback unless it is scraped.
func TestAdminIsPrivate(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s set, all objects) {
		scraped, toAdmin := slices.Contains(s.extras, "metrics"), 0
		for _, service := range of[*core.Service](all) {
			for _, port := range service.Spec.Ports {
				if port.TargetPort.StrVal == "admin" {
					toAdmin++
					if service.Spec.ClusterIP != core.ClusterIPNone || len(service.Spec.Ports) > 1 {
						t.Errorf("Service %s leads to admin among others", service.Name)
					}
				}
			}
		}
		admin := configOf(t, all)["admin"]
		if !scraped {
			if admin != "127.0.0.1:8081" || toAdmin > 0 {
				t.Errorf("admin is %v, and %d ports lead to it", admin, toAdmin)
			}
			return
		}
		tokens, _ := admin.(map[string]any)["tokens"].([]any)
		if len(tokens) == 0 || tokens[0].(map[string]any)["scope"] != "read" || toAdmin != 1 {
			t.Errorf("admin is %v, and %d ports lead to it: reading should need a token", admin, toAdmin)
		}
	})
}

// Pods meet the restricted Pod Security Standard, and write nothing.
func TestPodsAreRestricted(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, _ set, all objects) {
		pod, c := all.pod(t).Spec, all.container(t)
		no := func(p *bool) bool { return p != nil && !*p }
		yes := func(p *bool) bool { return p != nil && *p }
		for what, ok := range map[string]bool{
			"user":            yes(pod.SecurityContext.RunAsNonRoot) && *pod.SecurityContext.RunAsUser == 65534 && c.SecurityContext.RunAsUser == nil,
			"group":           *pod.SecurityContext.RunAsGroup == 65534 && *pod.SecurityContext.FSGroup == 65534,
			"seccomp":         pod.SecurityContext.SeccompProfile.Type == core.SeccompProfileTypeRuntimeDefault && c.SecurityContext.SeccompProfile == nil,
			"read-only root":  yes(c.SecurityContext.ReadOnlyRootFilesystem),
			"escalation":      no(c.SecurityContext.AllowPrivilegeEscalation) && c.SecurityContext.Privileged == nil,
			"capabilities":    slices.Equal(c.SecurityContext.Capabilities.Drop, []core.Capability{"ALL"}) && len(c.SecurityContext.Capabilities.Add) == 0,
			"host":            !pod.HostNetwork && !pod.HostPID && !pod.HostIPC,
			"token":           no(pod.AutomountServiceAccountToken) && no(only[*core.ServiceAccount](t, all).AutomountServiceAccountToken),
			"service account": pod.ServiceAccountName == only[*core.ServiceAccount](t, all).Name,
			"memory":          !c.Resources.Limits.Memory().IsZero() && !c.Resources.Requests.Memory().IsZero(),
			"CPU":             !c.Resources.Requests.Cpu().IsZero() && c.Resources.Limits.Cpu().IsZero(),
		} {
			if !ok {
				t.Errorf("%s is wrong", what)
			}
		}
		for i := range c.VolumeMounts {
			if !c.VolumeMounts[i].ReadOnly {
				t.Errorf("%s is mounted for writing", c.VolumeMounts[i].MountPath)
			}
		}
	})
}

// The kubelet waits longer than the program drains.
func TestGraceIsLongerThanDrain(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, _ set, all objects) {
		drain := configOf(t, all)["drain"].(map[string]any)
		var takes time.Duration
		for _, part := range []string{"delay", "timeout"} {
			d, err := time.ParseDuration(drain[part].(string))
			must(t, err)
			takes += d
		}
		if grace := time.Duration(*all.pod(t).Spec.TerminationGracePeriodSeconds) * time.Second; grace <= takes {
			t.Errorf("killed after %v, and draining takes %v", grace, takes)
		}
	})
}

// Nodes look for each other at the headless Service, which has the addresses of all pods.
func TestNodesFindEachOther(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s set, all objects) {
		cluster, on := configOf(t, all)["cluster"].(map[string]any)
		if on != slices.Contains(s.extras, "cluster") {
			t.Fatalf("cluster: %v", cluster)
		}
		if !on {
			return
		}
		join := cluster["join"].([]any)
		if len(join) != 1 {
			t.Fatalf("join: %v", join)
		}
		name, port, _ := strings.Cut(join[0].(string), ":")
		found := 0
		for _, service := range of[*core.Service](all) {
			if service.Name != name {
				continue
			}
			found++
			if service.Spec.ClusterIP != core.ClusterIPNone || !service.Spec.PublishNotReadyAddresses {
				t.Errorf("Service %s is not headless, or leaves out pods that are not ready", name)
			}
			for _, protocol := range []core.Protocol{core.ProtocolTCP, core.ProtocolUDP} {
				if !slices.ContainsFunc(service.Spec.Ports, func(p core.ServicePort) bool { return protocolOf(p.Protocol) == protocol && fmt.Sprint(p.Port) == port }) {
					t.Errorf("Service %s has no port %s of %s", name, port, protocol)
				}
			}
		}
		nodes, replicas := cluster["max_nodes"].(float64), *only[*apps.Deployment](t, all).Spec.Replicas
		if bind := cluster["bind"]; bind != "[${POD_IP}]:"+port || found != 1 || int32(nodes) <= replicas {
			t.Errorf("bind %v, max_nodes %v of %d replicas, %d Services %s", bind, nodes, replicas, found, name)
		}
	})
}

// A ServiceMonitor selects the Service of admin, and sends the token that admin wants.
func TestMonitorScrapesAdmin(t *testing.T) {
	t.Parallel()
	all := helm(t, everything)
	monitor := only[*monitoring.ServiceMonitor](t, all)
	var selected []string
	for _, service := range of[*core.Service](all) {
		if selects(monitor.Spec.Selector.MatchLabels, service.Labels) {
			selected = append(selected, service.Name)
			if job := service.Labels[monitor.Spec.JobLabel]; job != "fastlimit" {
				t.Errorf("the job is %q, and the alerts are about fastlimit", job)
			}
		}
	}
	endpoint := monitor.Spec.Endpoints[0]
	if !slices.Equal(selected, []string{"limits-metrics"}) || endpoint.Port != "admin" || len(monitor.Spec.Endpoints) != 1 {
		t.Errorf("it scrapes %s of %q", endpoint.Port, selected)
	}
	tokens := volume(t, all, "tokens").Secret
	if key := endpoint.Authorization.Credentials; key.Name != tokens.SecretName || key.Key != tokens.Items[0].Key || tokens.Items[0].Path != "read" {
		t.Errorf("it sends %v, and admin reads %v", key, tokens)
	}
}

func volume(t *testing.T, all objects, name string) *core.Volume {
	t.Helper()
	for i, v := range all.pod(t).Spec.Volumes {
		if v.Name == name {
			return &all.pod(t).Spec.Volumes[i]
		}
	}
	t.Fatalf("no volume %s", name)
	return nil
}

// Every file that the configuration or the command line names is in a volume.
func TestNamedFilesAreMounted(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s set, all objects) {
		mounted := map[string]bool{}
		for _, m := range all.container(t).VolumeMounts {
			if m.SubPath != "" {
				t.Errorf("%s: a subPath never changes", m.MountPath)
			}
			for name := range files(t, all, m.Name) {
				mounted[path.Join(m.MountPath, name)] = true
			}
		}
		named := append(pathsIn(configOf(t, all)), pathsIn(toAny(all.container(t).Args))...)
		for _, name := range named {
			if !mounted[name] {
				t.Errorf("%s is in no volume: %v", name, mounted)
			}
			delete(mounted, name)
		}
		if len(mounted) > 0 {
			t.Errorf("mounted, and named nowhere: %v", mounted)
		}
		if len(named) < 1+len(s.extras)-count(s.extras, "proxy", "policy") {
			t.Errorf("only %q are named", named)
		}
	})
}
