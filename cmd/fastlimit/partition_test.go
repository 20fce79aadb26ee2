package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// world is two machines that can be cut from each other: network namespaces A
// and B with a cable between them, and one to this process each. Redis, here,
// is reached from B through A, so that the cut takes it away as well.
//
//	this process ── A ══ cable ══ B ── this process
type world struct {
	t    *testing.T
	ns   [2]string // names
	here [2]string // addresses of this process, seen from A and B
	host [2]string // addresses of A and B, seen from here
	wire [2]string // addresses of A and B on the cable between them
	dev  [2]string // the ends of that cable
}

// newWorld skips the test where it may not make namespaces, but in CI, where it
// must.
func newWorld(t *testing.T) *world {
	t.Helper()
	const instead = "; TestPartition in sync/gossip cuts nodes by relays instead"
	without := t.Skipf
	if os.Getenv("CI") != "" {
		without = t.Fatalf
	}
	if os.Getuid() != 0 {
		without("network namespaces need root%s", instead)
	}
	if _, err := exec.LookPath("ip"); err != nil {
		without("network namespaces need the command ip: apt-get install iproute2%s", instead)
	}
	id := os.Getpid() % 10000
	w := &world{t: t}
	for i, side := range []string{"a", "b"} {
		w.ns[i] = fmt.Sprintf("flt%d%s", id, side)
		w.dev[i] = fmt.Sprintf("flt%dw%s", id, side)
	}
	if out, err := exec.Command("ip", "netns", "add", w.ns[0]).CombinedOutput(); err != nil {
		without("network namespaces are not permitted here: %s%s", strings.TrimSpace(string(out)), instead)
	}
	t.Cleanup(func() { // takes the cables along
		for _, ns := range w.ns {
			_ = exec.Command("ip", "netns", "del", ns).Run()
		}
	})
	w.ip("netns add " + w.ns[1])
	w.cable(id)
	return w
}

// cable connects all. Subnets of four addresses come from the block for
// benchmarks of networks, by process, so that two tests at once rarely meet.
func (w *world) cable(id int) {
	w.t.Helper()
	net := func(k, host int) string {
		n := (id*16 + k*4) % (1 << 17)
		return fmt.Sprintf("198.%d.%d.%d", 18+n>>16, n>>8&255, n&255+host)
	}
	for i, ns := range w.ns {
		w.here[i], w.host[i], w.wire[i] = net(i, 1), net(i, 2), net(2, 1+i)
		outside, inside := fmt.Sprintf("%sh", ns), fmt.Sprintf("%si", ns)
		w.ip(fmt.Sprintf("link add %s type veth peer name %s netns %s", outside, inside, ns))
		w.ip(fmt.Sprintf("addr add %s/30 dev %s", w.here[i], outside))
		w.ip(fmt.Sprintf("link set %s up", outside))
		w.ip(fmt.Sprintf("-n %s addr add %s/30 dev %s", ns, w.host[i], inside))
		w.ip(fmt.Sprintf("-n %s link set %s up", ns, inside))
		w.ip(fmt.Sprintf("-n %s link set lo up", ns))
	}
	w.ip(fmt.Sprintf("-n %s link add %s type veth peer name %s netns %s", w.ns[0], w.dev[0], w.dev[1], w.ns[1]))
	for i, ns := range w.ns {
		w.ip(fmt.Sprintf("-n %s addr add %s/30 dev %s", ns, w.wire[i], w.dev[i]))
	}
	w.join()
	w.run(exec.Command("ip", "netns", "exec", w.ns[0], "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"))
	w.ip(fmt.Sprintf("route add %s/30 via %s", net(2, 0), w.host[0])) // answers of Redis to B
}

// join plugs the cable between A and B in, cut pulls it.
func (w *world) join() {
	w.t.Helper()
	for i, ns := range w.ns {
		w.ip(fmt.Sprintf("-n %s link set %s up", ns, w.dev[i]))
	}
	w.ip(fmt.Sprintf("-n %s route replace %s via %s", w.ns[1], w.here[0], w.wire[0])) // B to Redis
}

func (w *world) cut() {
	w.t.Helper()
	w.ip(fmt.Sprintf("-n %s link set %s down", w.ns[0], w.dev[0]))
}

func (w *world) ip(args string) {
	w.t.Helper()
	w.run(exec.Command("ip", strings.Fields(args)...))
}

func (w *world) run(cmd *exec.Cmd) {
	w.t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("%v: %v: %s", cmd.Args, err, out)
	}
}

// serve runs a node of the cluster in A (0) or B (1).
func (w *world) serve(i int, redis string) *process {
	w.t.Helper()
	file := writeFile(w.t, "node.yaml", fmt.Sprintf("redis: {url: \"redis://%s\", timeout: 50ms}\n"+
		"trusted_proxies: [198.18.0.0/15]\nrules: [{name: per-ip, rate: %d/s, burst: %d}]\n", redis, clusterRate, clusterBurst)+
		clusterSettings(w.ns[i], w.wire[i]+":7946", []string{w.wire[0] + ":7946"}))
	return start(w.t, exec.Command("ip", "netns", "exec", w.ns[i], binary, "serve", "-c", file,
		"--listen", w.host[i]+":8080", "--admin", w.host[i]+":8081"))
}

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
func TestPartition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := redistest.Start(t, "--bind", "127.0.0.1 "+w.here[0], "--protected-mode", "no")
	redis := fmt.Sprintf("%s:%d", w.here[0], r.Port)
	nodes := []*process{w.serve(0, redis), w.serve(1, redis)}
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
	w.cut()
	for _, p := range nodes {
		p.waitPeers(t, 0)
	}
	redistest.Eventually(t, "B to notice that Redis is away", func() bool { return nodes[1].metric(t, "fastlimit_redis_up") == 0 })
	apart := []float64{charged(nodes[0]), charged(nodes[1])}
	time.Sleep(time.Second)
	for i, p := range nodes {
		if now := charged(p); now != apart[i] {
			t.Errorf("%s charged %v units across the cut", w.ns[i], now-apart[i])
		}
	}
	w.join()
	for _, p := range nodes {
		p.waitPeers(t, 1)
	}
	redistest.Eventually(t, "Redis to be back for B", func() bool { return nodes[1].metric(t, "fastlimit_redis_up") == 1 })
	stop()
	all.Wait()

	elapsed := time.Since(begin).Seconds()
	for i, s := range flood {
		sent, admitted, _ := s.since(begin)
		// The bound of one node by itself: r·J, and a few in flight.
		if most := clusterRate*elapsed + 1.5*clusterBurst + 1 + clusterRate*0.05 + 4; float64(admitted) > most {
			t.Errorf("%s admitted %d of %d in %.2f s, want at most %.0f", w.ns[i], admitted, sent, elapsed, most)
		}
		if float64(sent) < 2*clusterRate*elapsed {
			t.Errorf("%s: %d requests: no flood", w.ns[i], sent)
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
			t.Errorf("%s: %v units charged, the other counted %v", w.ns[i], got, want)
		}
	}
	if resp, _ := get(t, http.DefaultClient, "http://"+nodes[1].admin+"/readyz"); resp.StatusCode != http.StatusOK {
		t.Errorf("readyz %d", resp.StatusCode)
	}
}
