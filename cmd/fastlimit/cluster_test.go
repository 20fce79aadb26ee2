package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/cli"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// Three nodes on one Redis: each client may send clusterRate a second to all of
// them together.
const (
	clusterRate  = 20
	clusterBurst = 20
)

// redisNodes starts three nodes on one Redis, as a cluster or each for itself.
func redisNodes(t *testing.T, redis, prefix string, cluster bool) []*process {
	t.Helper()
	var nodes []*process
	var seeds []string
	for i := range 3 {
		settings := fmt.Sprintf("redis: {url: \"redis://%s\", timeout: 200ms, key_prefix: %q}\n"+
			"rules: [{name: per-ip, rate: %d/s, burst: %d}]\n", redis, prefix, clusterRate, clusterBurst)
		if cluster {
			settings += clusterSettings(fmt.Sprintf("n%d", i), "127.0.0.1:0", seeds)
		}
		p := serve(t, "-c", writeFile(t, "node.yaml", settings))
		nodes = append(nodes, p)
		if cluster {
			seeds = append(seeds, p.clusterAddr(t))
		}
	}
	if cluster {
		for _, p := range nodes {
			p.waitPeers(t, len(nodes)-1)
		}
	}
	return nodes
}

func clusterSettings(node, bind string, seeds []string) string {
	join, _ := json.Marshal(append([]string{}, seeds...))
	return fmt.Sprintf("cluster: {name: test, node: %s, bind: %q, join: %s, secret: correct-horse-battery, max_nodes: 3}\n", node, bind, join)
}

// nodeInfo is what a test reads of /v1/info.
type nodeInfo struct {
	Cluster struct {
		Address string
		Node    string
		Peers   []string
	}
	Rules []struct {
		ClusterBound struct {
			Burst uint64
			Rate  float64 `json:"rate_per_second"`
		} `json:"cluster_bound"`
	}
}

func (p *process) info(t *testing.T) (info nodeInfo) {
	t.Helper()
	_, body := get(t, http.DefaultClient, "http://"+p.admin+"/v1/info")
	if err := json.Unmarshal([]byte(body), &info); err != nil {
		t.Fatal(err)
	}
	return info
}

func (p *process) clusterAddr(t *testing.T) string { t.Helper(); return p.info(t).Cluster.Address }

func (p *process) waitPeers(t *testing.T, n int) {
	t.Helper()
	redistest.Eventually(t, fmt.Sprintf("%d peers", n), func() bool { return len(p.info(t).Cluster.Peers) == n })
}

// A client that sends three times its limit evenly over three nodes, and one
// that stays just below it at each, so that no node has reason to suspect it,
// are cut to their limit; one within its limit is never denied. Without the
// cluster both get what they send.
func TestCluster(t *testing.T) {
	severalPrograms(t)
	t.Parallel()
	const settle, measured = 3 * time.Second, 6 * time.Second
	r := redistest.Start(t)
	groups := map[bool][]*process{true: redisNodes(t, r.Addr, "a:", true), false: redisNodes(t, r.Addr, "b:", false)}
	type client struct {
		name     string
		together []*sender // with and without the cluster
	}
	clients := []client{{name: "3 r, evenly"}, {name: "0.95 r at each of 3"}, {name: "0.9 r, evenly"}}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer func() { stop(); all.Wait() }()
	begin := time.Now()
	for i, rate := range []float64{clusterRate, 0.95 * clusterRate, 0.3 * clusterRate} {
		for _, cluster := range []bool{true, false} {
			s := &sender{from: fmt.Sprintf("127.0.1.%d", i+1), rate: rate}
			clients[i].together = append(clients[i].together, s)
			all.Go(func() { s.run(ctx, t, groups[cluster]) })
		}
	}
	time.Sleep(settle)
	start := flooded(t, 2*clusterRate, measured, slices.Concat(clients[0].together, clients[1].together)...)

	for _, c := range clients {
		with, without := c.together[0], c.together[1]
		sent, admitted, seconds := with.since(start)
		sentAlone, admittedAlone, _ := without.since(start)
		t.Logf("%s: with the cluster %d of %d admitted in %.2f s, %.2f r; without %d of %d, %.2f r", c.name,
			admitted, sent, seconds, float64(admitted)/seconds/clusterRate, admittedAlone, sentAlone, float64(admittedAlone)/seconds/clusterRate)
		if c.name == "0.9 r, evenly" {
			if sent, admitted, _ := with.since(time.Time{}); admitted != sent {
				t.Errorf("%s: %d of %d denied", c.name, sent-admitted, sent)
			}
			continue
		}
		// 1.1 r, and a burst for what the machine delayed.
		if most := 1.1*clusterRate*seconds + clusterBurst; float64(admitted) > most {
			t.Errorf("%s: %d admitted in %.2f s, want at most %.0f", c.name, admitted, seconds, most)
		}
		if float64(admitted) < 0.8*clusterRate*seconds {
			t.Errorf("%s: %d admitted in %.2f s: less than the rate", c.name, admitted, seconds)
		}
		if float64(admittedAlone) < 1.5*float64(admitted) {
			t.Errorf("%s: %d admitted with the cluster, %d without: it has no effect", c.name, admitted, admittedAlone)
		}
		// From the first request on: the bound that is printed.
		info := groups[true][0].info(t)
		_, ever, _ := with.since(time.Time{})
		most := info.Rules[0].ClusterBound.Rate*(time.Since(begin).Seconds()+1) + float64(info.Rules[0].ClusterBound.Burst)
		if float64(ever) > most {
			t.Errorf("%s: %d admitted in all, the bound is %.0f", c.name, ever, most)
		}
	}
	checkTop(t, groups[true])
	checkNoise(t, groups[true][0])
	for _, p := range groups[true] {
		for _, reason := range []string{"key", "malformed", "version", "cap", "rule"} {
			if n := p.metric(t, fmt.Sprintf("fastlimit_sync_rejected_total{reason=%q}", reason)); n > 0 {
				t.Errorf("%v rejected: %s", n, reason)
			}
		}
	}
}

// checkTop asks each node for the clients that ask most, by hand and by
// command.
func checkTop(t *testing.T, nodes []*process) {
	t.Helper()
	redistest.Eventually(t, "the counts of all nodes", func() bool { // rates of a new peer take 10 s
		for _, p := range nodes {
			_, body := get(t, http.DefaultClient, "http://"+p.admin+"/v1/top?n=2")
			var top struct {
				Clients []struct {
					Rule, Key   string
					Rate, Error float64
					Nodes       []string
				}
			}
			if err := json.Unmarshal([]byte(body), &top); err != nil {
				t.Fatalf("%v: %s", err, body)
			}
			if len(top.Clients) != 2 {
				return false
			}
			for _, c := range top.Clients {
				if !slices.Equal(c.Nodes, []string{"n0", "n1", "n2"}) {
					return false
				}
				if c.Rule != "per-ip" || !slices.Contains([]string{"127.0.1.1", "127.0.1.2"}, c.Key) || c.Error < 0 {
					t.Errorf("%s", body)
				}
			}
		}
		return true
	})
	code, stdout, stderr := command(t, nil, "top", "--admin", nodes[2].admin, "-n", "1")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if code != 0 || stderr != "" || len(lines) != 2 || !strings.HasPrefix(lines[0], "RULE ") || !strings.Contains(lines[1], "n0,n1,n2") {
		t.Errorf("exit %d, stdout\n%s\nstderr %s", code, stdout, stderr)
	}
}

// checkNoise sends what is no packet to a node's port.
func checkNoise(t *testing.T, p *process) {
	t.Helper()
	conn, err := net.Dial("udp", p.clusterAddr(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 100 {
		if _, err := conn.Write([]byte("\x00noise")); err != nil {
			t.Fatal(err)
		}
	}
	redistest.Eventually(t, "noise to be counted", func() bool {
		return p.metric(t, `fastlimit_sync_rejected_total{reason="cluster"}`) >= 90 // UDP
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := strings.Count(p.log.String(), "reason=cluster"); n != 1 {
		t.Errorf("noise was logged %d times", n)
	}
}

// What is said without Redis, and what cannot be: a port that is taken.
func TestClusterStart(t *testing.T) {
	t.Parallel()
	rule := "rules: [{name: per-ip, rate: 20/s, burst: 20}]\n"
	p := serve(t, "-c", writeFile(t, "node.yaml", rule+clusterSettings("n0", "127.0.0.1:0", nil)))
	p.mu.Lock()
	log := p.log.String()
	p.mu.Unlock()
	for _, want := range []string{
		"without redis or postgres each node enforces the limits separately", `cluster.promise="no redis: each node enforces the limits on its own"`,
		"all nodes together 93 at once, then 60/s", "cluster.node=n0",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
	taken := p.clusterAddr(t)
	code, _, stderr := command(t, nil, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"-c", writeFile(t, "node.yaml", rule+clusterSettings("n1", taken, nil)))
	if code != cli.ExitFailure || !strings.Contains(stderr, "cluster bind "+taken) || !strings.Contains(stderr, "choose another port") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	// A reload breaks nothing; the end is clean.
	p.signal(syscall.SIGHUP)
	p.waitLog("msg=reloaded")
	p.signal(syscall.SIGTERM)
	p.waitLog("cluster: left")
	if code := p.wait(); code != 0 {
		t.Errorf("exit %d", code)
	}
}
