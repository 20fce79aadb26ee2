package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/overrides"
	"github.com/fastlimit/fastlimit/internal/testkit/pgtest"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// override runs fastlimit override, which must succeed.
func (p *process) override(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := command(t, nil, append(append([]string{"override"}, args...), "--admin", p.admin)...)
	if code != 0 {
		t.Errorf("override %q: exit %d, %s", args, code, stderr)
	}
	return stdout
}

// live are the live overrides of a node, by rule and key, that are in force there.
func (p *process) live(t *testing.T) map[string]string {
	t.Helper()
	_, body := get(t, http.DefaultClient, "http://"+p.admin+"/v1/overrides")
	var l overrides.List
	if err := json.Unmarshal([]byte(body), &l); err != nil {
		t.Fatal(err, body)
	}
	all := map[string]string{}
	for i := range l.Overrides {
		if o := &l.Overrides[i]; o.Source == "live" && o.Problem == "" {
			all[o.Rule+" "+strings.Join(o.Key, " ")] = shownLimit(o)
		}
	}
	return all
}

// follow waits until all nodes show what a change on one of them has made, and returns
// how long that took.
func follow(t *testing.T, nodes []*process, key, limit string) time.Duration {
	t.Helper()
	start := time.Now()
	for _, p := range nodes {
		redistest.Eventually(t, "an override on each node", func() bool { return p.live(t)[key] == limit })
	}
	return time.Since(start)
}

// steady sends requests at a rate of which each fits the client's limit, to the nodes in
// turn, until stop is closed, and counts the answers.
func steady(t *testing.T, from string, nodes []*process, pause time.Duration, stop <-chan struct{}) (sent, denied *atomic.Int64, done *sync.WaitGroup) {
	t.Helper()
	sent, denied, done = new(atomic.Int64), new(atomic.Int64), new(sync.WaitGroup)
	done.Go(func() {
		c := clientFrom(t, from)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(pause): // the least pause: what is late is later
			}
			resp, err := c.Get("http://" + nodes[i%len(nodes)].listen + "/")
			if err != nil {
				t.Error(err)
				return
			}
			_ = resp.Body.Close()
			if sent.Add(1); resp.StatusCode != http.StatusOK {
				denied.Add(1)
			}
		}
	})
	return sent, denied, done
}

// Overrides are changed on one of three nodes under load: all nodes follow, and
// nobody who keeps their limits is denied meanwhile, neither a client whose limit changes,
// and which keeps both, nor others. While the store is away the last known holds, also
// after it has come back empty, and changes go on.
func followsOnThreeNodes(t *testing.T, settings string, kill, restart func()) {
	t.Helper()
	file := writeFile(t, "live.yaml", settings+"rules: [{name: r, key: ip, rate: 20/s, burst: 40}, {name: all, key: [method, path], rate: 100000/s}]\n")
	nodes := []*process{serve(t, "-c", file), serve(t, "-c", file), serve(t, "-c", file)}
	stop := make(chan struct{})
	// 127.0.0.2 keeps 20/s, and the 40/s and 16/s that it has at times; 127.0.0.3 has no override.
	changed, changedDenied, one := steady(t, "127.0.0.2", nodes, 64*time.Millisecond, stop)
	other, otherDenied, two := steady(t, "127.0.0.3", nodes, 51*time.Millisecond, stop)
	_, _, flooding := steady(t, "127.0.0.1", nodes[1:2], time.Millisecond, stop)

	end := sync.OnceFunc(func() { close(stop); one.Wait(); two.Wait(); flooding.Wait() })
	defer end()

	var slowest time.Duration
	check := func(key, limit string) {
		t.Helper()
		slowest = max(slowest, follow(t, nodes, key, limit))
	}
	for i := range 2 {
		limit := []string{"rate=40/s burst=80", "rate=16/s burst=40"}[i%2]
		nodes[i%3].override(t, append([]string{"set", "r", "127.0.0.2"}, strings.Fields(limit)...)...)
		check("r 127.0.0.2", limit)
	}
	nodes[1].override(t, "set", "r", "127.0.0.9", "unlimited")
	nodes[2].override(t, "set", "all", "GET", "/odd path=1", "rate=7/s", "--for", "30m")
	check("r 127.0.0.9", "unlimited")
	check("all GET /odd path=1", "rate=7/s")
	nodes[2].override(t, "delete", "r", "127.0.0.2")
	check("r 127.0.0.2", "")
	t.Logf("3 nodes knew each of 5 changes after %v at most", slowest)

	if kill != nil {
		kill()
		for _, p := range nodes {
			p.waitLog("live overrides: the store does not answer")
		}
		if code, out, stderr := command(t, nil, "override", "list", "nope", "--admin", nodes[0].admin); code != 1 || out != "" || !strings.Contains(stderr, `no rule "nope"; this node has r`) {
			t.Errorf("a list of no rule: exit %d, %q, %q", code, out, stderr)
		}
		if code, _, stderr := command(t, nil, "override", "set", "r", "127.0.0.8", "rate=1/s", "--admin", nodes[0].admin); code == 0 || !strings.Contains(stderr, "did not confirm") {
			t.Errorf("a change without the store: exit %d, %s", code, stderr)
		}
		for i, p := range nodes {
			if l := p.live(t); l["r 127.0.0.9"] != "unlimited" || l["all GET /odd path=1"] != "rate=7/s" || len(l) != 2 {
				t.Errorf("node %d knows %v", i, l)
			}
		}
		restart()
		for _, p := range nodes {
			p.waitLog("live overrides: the store answers again")
		}
		redistest.Eventually(t, "a change after the restart", func() bool {
			code, _, _ := command(t, nil, "override", "set", "r", "127.0.0.7", "rate=3/s", "--admin", nodes[1].admin)
			return code == 0
		})
		check("r 127.0.0.7", "rate=3/s")
		check("r 127.0.0.9", "unlimited")
		check("all GET /odd path=1", "rate=7/s")
	}
	end()
	if changedDenied.Load()+otherDenied.Load() > 0 || changed.Load() < 20 || other.Load() < 20 {
		t.Errorf("%d of %d requests of the client whose limit changes were denied, %d of %d of another", changedDenied.Load(), changed.Load(), otherDenied.Load(), other.Load())
	}
	t.Logf("%d and %d requests of clients that keep their limits, none denied", changed.Load(), other.Load())
}

func TestOverridesOnThreeNodesWithRedis(t *testing.T) {
	severalPrograms(t)
	t.Parallel()
	r := redistest.Start(t, "--save", "", "--appendonly", "no")
	followsOnThreeNodes(t, fmt.Sprintf("redis: {url: \"redis://%s\", timeout: 200ms}\n", r.Addr), r.Kill, r.Run)
}

func TestOverridesOnThreeNodesWithPostgres(t *testing.T) {
	severalPrograms(t)
	t.Parallel()
	db := pgtest.Start(t)
	db.Do("CREATE ROLE node LOGIN")
	if code, _, stderr := command(t, nil, "store", "init", "--postgres", db.URL("postgres", "postgres"), "--grant", "node"); code != 0 {
		t.Fatal(stderr)
	}
	followsOnThreeNodes(t, fmt.Sprintf("postgres: {url: %q, timeout: 200ms}\n", db.URL("node", "postgres")), db.Kill, db.Run)
}
