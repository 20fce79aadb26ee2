//go:build linux && netns

package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/bans"
	"github.com/fastlimit/fastlimit/internal/overrides"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/netns"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// scheduled is a cluster on one Redis to whose nodes anything happens.
type scheduled struct {
	t     *testing.T
	rng   *rand.Rand
	redis *redistest.Server
	token string        // a file
	lasts time.Duration // a ban
	nodes []*scheduledNode
	lost  map[string]time.Time // when a node has last forgotten that it bans a client
	did   map[string]int
}

// scheduledNode is one of them, on a machine of its own. While it is away, up is nil.
type scheduledNode struct {
	*process
	*netns.Machine
	up          atomic.Pointer[process]
	file, state string
	text        func(rate int) string
}

func newScheduled(t *testing.T, seed uint64, size int, lasts time.Duration) *scheduled {
	machines := netns.Machines(t, size)
	s := &scheduled{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), redis: redistest.Start(t, "--bind", "0.0.0.0", "--protected-mode", "no"),
		lasts: lasts, lost: map[string]time.Time{}, did: map[string]int{},
	}
	s.token = writeFile(t, "token", strings.Repeat("secret", 8))
	var addrs []string
	for _, m := range machines {
		addrs = append(addrs, m.Addr+":7946")
	}
	for i, addr := range addrs {
		dir := t.TempDir()
		n := &scheduledNode{Machine: machines[i], file: filepath.Join(dir, "c.yaml"), state: filepath.Join(dir, "state")}
		cluster := strings.NewReplacer("cluster: {", "cluster: {accept_bans: true, ", "max_nodes: 3", fmt.Sprint("max_nodes: ", size)).
			Replace(clusterSettings(fmt.Sprint("n", i), addr, slices.Delete(slices.Clone(addrs), i, i+1)))
		n.text = func(rate int) string {
			return fmt.Sprintf("admin: {address: \"%s:8081\", token_file: %s}\nredis: {url: \"redis://%s:%d\", timeout: 500ms}\nstate_file: %s\ndrain: {delay: 0s}\nmemory: 4MiB\n%srules: [{name: per-ip, rate: %d/s, burst: 20, ban: {after: 5, within: 10s, for: %v}}]\n",
				n.Addr, s.token, netns.Host, s.redis.Port, n.state, cluster, rate, lasts)
		}
		s.nodes = append(s.nodes, n)
		s.reload(n, 20)
		s.start(n)
	}
	return s
}

func (s *scheduled) start(n *scheduledNode) {
	n.process = start(s.t, n.Command(binary, "serve", "-c", n.file, "--listen", n.Addr+":8080"))
	n.up.Store(n.process)
}

// reload has a node read another rate, if it runs.
func (s *scheduled) reload(n *scheduledNode, rate int) {
	if err := os.WriteFile(n.file, []byte(n.text(rate)), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if n.process == nil {
		return
	}
	if code, stderr := s.ask(n, "reload"); code != 0 {
		s.t.Fatalf("reload: exit %d: %s", code, stderr)
	}
}

// ask runs the command for a node.
func (s *scheduled) ask(n *scheduledNode, args ...string) (code int, stderr string) {
	code, _, stderr = command(s.t, nil, append(args, "--admin", n.admin, "--token-file", s.token)...)
	return code, stderr
}

// restart ends a node, and starts it again with what it has kept, or without.
func (s *scheduled) restart(n *scheduledNode, how syscall.Signal, forget bool) {
	if forget || how == syscall.SIGKILL {
		for _, b := range s.bans(n) {
			if b.By == "rule" {
				s.lost[b.Key] = time.Now()
			}
		}
	}
	n.up.Store(nil)
	n.signal(how)
	n.wait()
	if forget {
		_ = os.Remove(n.state)
	}
	s.start(n)
}

func (s *scheduled) bans(n *scheduledNode) []bans.Shown {
	var all bans.List
	s.read(n, "/v1/bans?limit=1000", &all)
	return all.Bans
}

func (s *scheduled) read(n *scheduledNode, path string, to any) {
	_, body := get(s.t, http.DefaultClient, "http://"+n.admin+path)
	if err := json.Unmarshal([]byte(body), to); err != nil {
		s.t.Fatalf("%s: %v: %s", path, err, body)
	}
}

// flood has a client banned by a node, unless it is already.
func (s *scheduled) flood(n *scheduledNode, client string) {
	c := clientFrom(s.t, client)
	for range 60 {
		get(s.t, c, "http://"+n.listen+"/")
	}
}

// unban ends the bans of a client where they have begun.
func (s *scheduled) unban(client string) {
	for _, n := range s.nodes {
		for _, b := range s.bans(n) {
			if b.Key == client && b.By == "rule" {
				s.ask(n, "unban", client) // it may end meanwhile
			}
		}
	}
}

// cut loses what a node sends to another, and perhaps what it is answered.
func (s *scheduled) cut(from, to *scheduledNode) {
	netns.Cut(s.t, from.Addr, to.Addr)
	if s.rng.IntN(2) == 0 {
		netns.Cut(s.t, to.Addr, from.Addr)
	}
}

// step does something.
func (s *scheduled) step() {
	n := s.nodes[s.rng.IntN(len(s.nodes))]
	client := fmt.Sprint("10.128.12.", 1+s.rng.IntN(6))
	limited := fmt.Sprint("10.128.13.", 1+s.rng.IntN(4))
	registry := "fastlimit:!" + overrides.Registry
	steps := []struct {
		name  string
		times int
		do    func()
	}{
		{"flood", 6, func() { s.flood(n, client) }},
		{"unban", 2, func() { s.unban(client) }},
		{"reload", 2, func() { s.reload(n, 20+s.rng.IntN(2)) }},
		{"restart", 1, func() { s.restart(n, syscall.SIGTERM, false) }},
		{"restart without state", 1, func() { s.restart(n, syscall.SIGTERM, true) }},
		{"kill", 1, func() { s.restart(n, syscall.SIGKILL, false) }},
		{"stop", 1, func() {
			n.up.Store(nil)
			n.signal(syscall.SIGSTOP)
			time.Sleep(time.Duration(s.rng.IntN(3000)) * time.Millisecond)
			n.signal(syscall.SIGCONT)
			n.up.Store(n.process)
		}},
		{"cut", 2, func() { s.cut(n, s.nodes[s.rng.IntN(len(s.nodes))]) }},
		{"cut from the store", 1, func() { netns.Cut(s.t, n.Addr, netns.Host) }},
		{"join", 2, func() { netns.Join(s.t) }},
		{"override", 3, func() {
			s.ask(n, "override", "set", "per-ip", limited, fmt.Sprintf("rate=%d/s", 1+s.rng.IntN(1000)), "--for", "1h")
		}},
		{"delete", 2, func() { s.ask(n, "override", "delete", "per-ip", limited) }},
		{"note the store", 1, func() { s.redis.Do("COPY", registry, "noted", "REPLACE") }},
		{"lose writes", 1, func() { s.redis.Do("COPY", "noted", registry, "REPLACE") }},
		{"empty the store", 1, func() { s.redis.Do("FLUSHALL") }},
		{"wait", 2, func() { time.Sleep(time.Second) }},
	}
	all := 0
	for _, x := range steps {
		all += x.times
	}
	at := s.rng.IntN(all)
	for _, x := range steps {
		if at -= x.times; at < 0 {
			s.did[x.name]++
			x.do()
			return
		}
	}
}

// differs says in what nodes differ that have had time to agree, "" if in nothing.
func (s *scheduled) differs() string {
	listed := make([]map[string]string, len(s.nodes)) // who says so, by client
	own := map[string]bool{}
	var live []string
	for i, n := range s.nodes {
		listed[i] = map[string]string{}
		for _, b := range s.bans(n) {
			listed[i][b.Key] = b.By
			own[b.Key] = own[b.Key] || b.By == "rule"
		}
		var o overrides.List
		s.read(n, "/v1/overrides", &o)
		text := ""
		for _, x := range o.Overrides {
			text += fmt.Sprintln(x.Key, x.Rate, x.Problem)
		}
		live = append(live, text)
	}
	for i := range s.nodes {
		if live[i] != live[0] {
			return fmt.Sprintf("n0 has the overrides\n%s, n%d\n%s", live[0], i, live[i])
		}
		for client := range own {
			if own[client] && listed[i][client] == "" {
				return fmt.Sprintf("n%d does not ban %s: %v", i, client, listed)
			}
		}
		for client := range listed[i] {
			if !own[client] && time.Since(s.lost[client]) > s.lasts {
				return fmt.Sprintf("n%d bans %s for nobody: %v", i, client, listed)
			}
		}
	}
	return ""
}

// conforming is a client that keeps to the limit, at any node, until stop. It counts answers,
// and those by which it is denied.
func (s *scheduled) conforming(client string, seed uint64, stop <-chan struct{}) (answers, denied int) {
	rng := rand.New(rand.NewPCG(seed, 2))
	c := clientFrom(s.t, client)
	c.Timeout = 10 * time.Second
	for {
		select {
		case <-stop:
			return answers, denied
		case <-time.After(250 * time.Millisecond):
		}
		p := s.nodes[rng.IntN(len(s.nodes))].up.Load()
		if p == nil {
			continue
		}
		resp, err := c.Get("http://" + p.listen + "/")
		if err != nil { // the node ends
			continue
		}
		resp.Body.Close()
		if answers++; resp.StatusCode == http.StatusTooManyRequests {
			denied++
		}
	}
}

// Whatever happens to nodes, store and network, nobody who conforms is denied; nodes agree on
// bans, their ends and overrides when it is over; and bans end at their time.
func TestNetnsClusterSchedule(t *testing.T) {
	t.Parallel()
	netns.Run(t, func() { followSchedule(t) })
}

func followSchedule(t *testing.T) {
	last, lasts := time.Duration(testkit.Size(int64(8*time.Second), int64(10*time.Minute))), time.Duration(testkit.Size(int64(20*time.Second), int64(time.Minute)))
	seed := uint64(time.Now().UnixNano())
	size := 2 + int(seed%4)
	t.Logf("seed %d, %d nodes", seed, size)
	s := newScheduled(t, seed, size, lasts)
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i := range uint64(3) {
		all.Go(func() {
			client := fmt.Sprint("10.128.11.", i+1)
			if answers, denied := s.conforming(client, i, stop); denied > 0 || answers == 0 {
				t.Errorf("%s: %d of %d denied", client, denied, answers)
			}
		})
	}
	for end := time.Now().Add(last); time.Now().Before(end); {
		s.step()
	}
	netns.Join(t)
	for _, n := range s.nodes {
		s.reload(n, 20)
	}
	over, told, what := time.Now(), time.Time{}, ""
	redistest.Eventually(t, "the nodes agree", func() bool {
		now := s.differs()
		if now != what && (now == "" || time.Since(told) > time.Second) {
			told = time.Now()
			t.Logf("after %v: %s", time.Since(over), now)
		}
		what = now
		return what == ""
	})
	t.Logf("%v; nodes agree after %v", s.did, time.Since(over))
	for _, n := range s.nodes {
		for _, b := range s.bans(n) {
			if left := time.Duration(b.SecondsLeft * float64(time.Second)); left > lasts-time.Since(over)+time.Second {
				t.Errorf("a ban lasts for %v", left)
			}
		}
	}
	close(stop)
	all.Wait()
	redistest.Eventually(t, "all bans end", func() bool {
		for _, n := range s.nodes {
			if len(s.bans(n)) > 0 {
				return false
			}
		}
		return true
	})
	if took := time.Since(over); took > lasts+5*time.Second {
		t.Errorf("the last ban ended after %v", took)
	}
}
