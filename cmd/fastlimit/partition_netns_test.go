//go:build linux && netns

package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/netns"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// counted is what a node has counted by name: what got past the filter.
func (p *process) counted(t *testing.T) (units float64) {
	t.Helper()
	for _, stage := range []string{"sketch", "exact", "fallback"} {
		for _, decision := range []string{"allow", "deny"} {
			units += p.metric(t, fmt.Sprintf(`fastlimit_decisions_total{decision=%q,mode="enforce",rule="per-ip",stage=%q}`, decision, stage))
		}
	}
	return units
}

// Two nodes are cut from each other, and one from Redis, under load. Each side
// keeps its promises by itself; when they are back together, peers find each
// other again and no count is charged twice.
func TestNetnsPartition(t *testing.T) {
	t.Parallel()
	netns.Run(t, func() { cutAndJoin(t) })
}

// onMachine runs a node of the cluster.
func onMachine(t *testing.T, m, first *netns.Machine, redis int) *process {
	t.Helper()
	file := writeFile(t, "node.yaml", fmt.Sprintf("redis: {url: \"redis://%s:%d\", timeout: 50ms}\n"+
		"trusted_proxies: [%s]\nrules: [{name: per-ip, rate: %d/s, burst: %d}]\n", netns.Host, redis, m.Here, clusterRate, clusterBurst)+
		clusterSettings("at-"+m.Addr, m.Addr+":7946", []string{first.Addr + ":7946"}))
	return start(t, m.Command(binary, "serve", "-c", file, "--listen", m.Addr+":8080", "--admin", m.Addr+":8081"))
}

func cutAndJoin(t *testing.T) {
	m := netns.Machines(t, 2)
	r := redistest.Start(t, "--bind", "0.0.0.0", "--protected-mode", "no")
	nodes := []*process{onMachine(t, m[0], m[0], r.Port), onMachine(t, m[1], m[0], r.Port)}
	for _, p := range nodes {
		p.waitPeers(t, 1)
		if up := p.metric(t, "fastlimit_redis_up"); up != 1 {
			t.Fatalf("redis_up %v", up)
		}
	}
	charged := func(p *process) float64 { return p.metric(t, "fastlimit_sync_charged_units_total") }

	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer func() { stop(); all.Wait() }()
	begin := time.Now()
	flood := []*sender{{header: "192.0.2.66", rate: 100}, {header: "192.0.2.66", rate: 100}}
	polite := &sender{header: "192.0.2.7", rate: 0.4 * clusterRate}
	for i, s := range flood {
		all.Go(func() { s.run(ctx, t, nodes[i:i+1]) })
	}
	all.Go(func() { polite.run(ctx, t, nodes) })
	time.Sleep(time.Second)
	netns.Cut(t, m[0].Addr, m[1].Addr)
	netns.Cut(t, m[1].Addr, m[0].Addr)
	netns.Cut(t, m[1].Addr, netns.Host)
	for _, p := range nodes {
		p.waitPeers(t, 0)
	}
	redistest.Eventually(t, "B to notice that Redis is away", func() bool { return nodes[1].metric(t, "fastlimit_redis_up") == 0 })
	apart := []float64{charged(nodes[0]), charged(nodes[1])}
	time.Sleep(time.Second)
	for i, p := range nodes {
		if now := charged(p); now != apart[i] {
			t.Errorf("%s charged %v units across the cut", m[i].Addr, now-apart[i])
		}
	}
	netns.Join(t)
	for _, p := range nodes {
		p.waitPeers(t, 1)
	}
	redistest.Eventually(t, "Redis to be back for B", func() bool { return nodes[1].metric(t, "fastlimit_redis_up") == 1 })
	flooded(t, 2*clusterRate, time.Second, flood...)
	stop()
	all.Wait()

	elapsed := time.Since(begin).Seconds()
	for i, s := range flood {
		sent, admitted, _ := s.since(begin)
		// The bound of one node by itself: r·J, and a few in flight.
		if most := clusterRate*elapsed + 1.5*clusterBurst + 1 + clusterRate*0.05 + 4; float64(admitted) > most {
			t.Errorf("%s admitted %d of %d in %.2f s, want at most %.0f", m[i].Addr, admitted, sent, elapsed, most)
		}
	}
	if sent, admitted, _ := polite.since(begin); admitted != sent {
		t.Errorf("%d of %d denied to a client within its limit", sent-admitted, sent)
	}
	for i, p := range nodes {
		want := nodes[1-i].counted(t)
		redistest.Eventually(t, "every count", func() bool { return charged(p) >= want })
		time.Sleep(500 * time.Millisecond) // and no more of them
		if got := charged(p); got != want {
			t.Errorf("%s: %v units charged, the other counted %v", m[i].Addr, got, want)
		}
	}
	if resp, _ := get(t, http.DefaultClient, "http://"+nodes[1].admin+"/readyz"); resp.StatusCode != http.StatusOK {
		t.Errorf("readyz %d", resp.StatusCode)
	}
}
