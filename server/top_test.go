package server

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/server/internal/admin"
	"github.com/fastlimit/fastlimit/sketch"
	"github.com/fastlimit/fastlimit/toptalkers"
)

// talkers are those of a test.
type talkers []toptalkers.Talker

func (all talkers) Top(n int) []toptalkers.Talker { return all[:min(n, len(all))] }

func TestTop(t *testing.T) {
	t.Parallel()
	all := talkers{
		{Rule: "per-ip", Key: "192.0.2.7", Name: "4\xc0\x00\x02\x07", Rate: 12.5, Denied: 11, Error: 0.5, Nodes: []string{"a", "b"}},
		{Rule: "per-key", Key: `"k\x1b"`, Rate: 1, Nodes: []string{"a"}}, // of a rule that is gone
	}
	s := start(t, perSecond(), func(c *Config) { c.TopTalkers = all })
	const first = `{"rule":"per-ip","key":"192.0.2.7","rate":12.5,"error":0.5,"denied":11,"limit":1,"share":12.5,"mode":"enforce","banned_for":0,"nodes":["a","b"],"key_parts":["192.0.2.7"]}`
	for path, want := range map[string]string{
		"/v1/top":     `{"clients":[` + first + `,{"rule":"per-key","key":"\"k\\x1b\"","rate":1,"error":0,"denied":0,"limit":null,"share":null,"mode":"","banned_for":0,"nodes":["a"],"key_parts":null}],"totals":{"requests":`,
		"/v1/top?n=1": `{"clients":[` + first + `],"totals":{"requests":`,
	} {
		resp := get(t, "http://"+s.admin+path)
		if got := string(readAll(t, resp)); !strings.HasPrefix(got, want) || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s\nwant %s", path, got, want)
		}
	}
	resp := get(t, "http://"+s.admin+"/v1/top?rule=per-%1bip")
	if body := string(readAll(t, resp)); resp.StatusCode != http.StatusNotFound || !strings.Contains(body, "this node has per-ip") || strings.Contains(body, "\x1b") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

func TestTopOfNobody(t *testing.T) {
	t.Parallel()
	none := start(t, perIP())
	resp := get(t, "http://"+none.admin+"/v1/top")
	if body := string(readAll(t, resp)); resp.StatusCode != http.StatusNotFound || !strings.Contains(body, "top_talkers is 0") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	quiet := start(t, perIP(), func(c *Config) { c.TopTalkers = talkers(nil) })
	if body := string(readAll(t, get(t, "http://"+quiet.admin+"/v1/top"))); !strings.HasPrefix(body, `{"clients":[],"totals":{`) {
		t.Errorf("%s", body)
	}
}

// Without a cluster the server itself ranks this node's clients and ends the
// epochs of their tables.
func TestTopOfThisNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newConfig(t, perIP())
		lim, err := fastlimit.New(fastlimit.Config{Memory: 2 << 20, TopTalkers: 16, Rules: []fastlimit.RuleConfig{c.Limiter.Rules()[0].Config()}})
		if err != nil {
			t.Fatal(err)
		}
		c.Limiter = lim
		s, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		rule := lim.Rules()[0]
		key := rule.AddrKey(netip.MustParseAddr("192.0.2.7"))
		for range 12 {
			rule.Allow(key)
			time.Sleep(time.Second)
			s.tick()
		}
		top := s.ranking().Top(3)
		if len(top) != 1 || top[0].Key != "192.0.2.7" || top[0].Rate < 0.8 || top[0].Rate > 1.2 || len(top[0].Nodes) != 1 {
			t.Errorf("%+v, want 192.0.2.7 with 1/s", top)
		}
		for range int(2*rule.TopTalkers().Epoch/time.Second) + 2 {
			time.Sleep(time.Second)
			s.tick()
		}
		var slot sketch.Slot
		for i := range rule.TopTalkers().Table.Slots() {
			if rule.TopTalkers().Table.Read(i, &slot); slot.Live {
				t.Errorf("after two silent epochs: %+v", slot)
			}
		}
	})
}

// What the program around the server says of itself, its store and its cluster.
func TestInfoOfSurroundings(t *testing.T) {
	t.Parallel()
	set := perIP()
	set.Rules[0].Limit.Strict, set.Rules[0].Limit.Burst = false, 20
	s := start(t, set, func(c *Config) {
		c.GoMemory = &GoMemory{LimitBytes: 1 << 30, GCPercent: 20}
		c.Store = func() StoreInfo {
			return StoreInfo{State: "closed", Distance: 2 * time.Millisecond, Timeout: 20 * time.Millisecond, Late: 7}
		}
		c.Cluster = func() ClusterInfo {
			return ClusterInfo{Name: "edge", Node: "a", Address: "10.0.0.1:7946", MaxNodes: 3, Interval: 100 * time.Millisecond, Lag: 200 * time.Millisecond, Peers: []string{"b"}}
		}
	})
	body := readAll(t, get(t, "http://"+s.admin+"/v1/info"))
	var info admin.Info
	if err := json.Unmarshal(body, &info); err != nil {
		t.Fatal(err)
	}
	compact := strings.Join(strings.Fields(string(body)), "")
	for _, want := range []string{
		`"go":{"limit_bytes":1073741824,"gc_percent":20}`,
		`"redis":{"state":"closed","distance_seconds":0.002,"timeout_seconds":0.02,"late_operations":7}`,
	} {
		if !strings.Contains(compact, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
	if c := info.Cluster; c == nil || c.Name != "edge" || c.Node != "a" || c.Address != "10.0.0.1:7946" || len(c.Peers) != 1 ||
		c.MaxNodes != 3 || c.IntervalSecs != 0.1 || c.LagSecs != 0.2 {
		t.Errorf("%+v", info.Cluster)
	}
	if b := info.Rules[0].ClusterBound; b == nil || b.Burst == 0 || b.Rate == 0 {
		t.Errorf("%+v", b)
	}
}
