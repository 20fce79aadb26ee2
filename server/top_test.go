package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/server/internal/admin"
)

// talkers are those of a test.
type talkers []Talker

func (all talkers) Top(n int) []Talker { return all[:min(n, len(all))] }

func TestTop(t *testing.T) {
	t.Parallel()
	all := talkers{
		{Rule: "per-ip", Key: "192.0.2.7", Rate: 12.5, Error: 0.5, Nodes: []string{"a", "b"}},
		{Rule: "per-key", Key: `"k\x1b"`, Rate: 1, Nodes: []string{"a"}},
	}
	s := start(t, perIP(), func(c *Config) { c.Talkers = all })
	for path, want := range map[string]string{
		"/v1/top":     `{"clients":[{"rule":"per-ip","key":"192.0.2.7","rate":12.5,"error":0.5,"nodes":["a","b"]},{"rule":"per-key","key":"\"k\\x1b\"","rate":1,"error":0,"nodes":["a"]}]}`,
		"/v1/top?n=1": `{"clients":[{"rule":"per-ip","key":"192.0.2.7","rate":12.5,"error":0.5,"nodes":["a","b"]}]}`,
	} {
		resp := get(t, "http://"+s.admin+path)
		if got := strings.TrimSpace(string(readAll(t, resp))); got != want || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s\nwant %s", path, got, want)
		}
	}
	for _, n := range []string{"0", "-1", "1001", "", "x", "1e2", "99999999999999999999", "%0a%1b"} {
		resp := get(t, "http://"+s.admin+"/v1/top?n="+n)
		var p struct {
			Status int
			Detail string
		}
		body := readAll(t, resp)
		if err := json.Unmarshal(body, &p); err != nil || resp.StatusCode != http.StatusBadRequest || p.Status != 400 ||
			!strings.Contains(p.Detail, "want a whole number from 1 to 1000") || strings.Contains(p.Detail, "\x1b") {
			t.Errorf("n=%q: %d %s", n, resp.StatusCode, body)
		}
	}
}

func TestTopOfNobody(t *testing.T) {
	t.Parallel()
	none := start(t, perIP())
	resp := get(t, "http://"+none.admin+"/v1/top")
	if body := string(readAll(t, resp)); resp.StatusCode != http.StatusNotFound || !strings.Contains(body, "top_talkers is 0") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	quiet := start(t, perIP(), func(c *Config) { c.Talkers = talkers(nil) })
	if body := string(readAll(t, get(t, "http://"+quiet.admin+"/v1/top"))); body != "{\"clients\":[]}\n" {
		t.Errorf("%s", body)
	}
}

// What the server does once a second it does for others too.
func TestTick(t *testing.T) {
	t.Parallel()
	var ticks atomic.Int32
	start(t, perIP(), func(c *Config) { c.Tick = func() { ticks.Add(1) } })
	eventually(t, func() bool { return ticks.Load() >= 2 })
}

func TestInfoOfACluster(t *testing.T) {
	t.Parallel()
	set := perIP()
	set.Rules[0].Limit.Strict, set.Rules[0].Limit.Burst = false, 20
	s := start(t, set, func(c *Config) {
		c.Cluster = func() ClusterInfo {
			return ClusterInfo{Name: "edge", Node: "a", Address: "10.0.0.1:7946", MaxNodes: 3, Interval: 100 * time.Millisecond, Peers: []string{"b"}}
		}
	})
	var info admin.Info
	if err := json.Unmarshal(readAll(t, get(t, "http://"+s.admin+"/v1/info")), &info); err != nil {
		t.Fatal(err)
	}
	if c := info.Cluster; c == nil || c.Name != "edge" || c.Node != "a" || c.Address != "10.0.0.1:7946" || len(c.Peers) != 1 ||
		c.MaxNodes != 3 || c.IntervalSecs != 0.1 || c.LagSecs != 0.2 {
		t.Errorf("%+v", info.Cluster)
	}
	if b := info.Rules[0].ClusterBound; b == nil || b.Burst == 0 || b.Rate == 0 {
		t.Errorf("%+v", b)
	}
}
