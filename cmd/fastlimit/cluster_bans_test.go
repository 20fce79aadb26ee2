package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// banningNode starts a node of a cluster whose rule bans at the third denial.
func banningNode(t *testing.T, name, accept string, seeds []string) *process {
	t.Helper()
	cluster := strings.Replace(clusterSettings(name, "127.0.0.1:0", seeds), "cluster: {", "cluster: {accept_bans: "+accept+", ", 1)
	return serve(t, "-c", writeFile(t, name+".yaml", cluster+
		"rules: [{name: per-ip, rate: 1/h, burst: 2, strict: true, ban: {after: 3, within: 10s, for: 20s, max: 1m}}]\n"))
}

// Three nodes, of which two accept bans. A client that one bans is banned on the other and not
// on the third; unbanned where it was banned it is free on both, unbanned elsewhere on that
// node alone; and a ban ends everywhere at its time.
func TestClusterBans(t *testing.T) {
	severalPrograms(t)
	t.Parallel()
	a := banningNode(t, "n0", "true", nil)
	seeds := []string{a.clusterAddr(t)}
	b, c := banningNode(t, "n1", "true", seeds), banningNode(t, "n2", "false", seeds)
	for _, p := range []*process{a, b, c} {
		p.waitPeers(t, 2)
	}
	flood := func(client string) {
		for range 2 + 3 {
			get(t, clientFrom(t, client), "http://"+a.listen+"/")
		}
	}
	listed := func(p *process, client, by string) bool {
		_, body := get(t, http.DefaultClient, "http://"+p.admin+"/v1/bans")
		return strings.Contains(body, fmt.Sprintf(`{"key":%q,"rule":"per-ip","by":%q,`, client, by))
	}
	told := func(p *process, client string) bool {
		resp, _ := get(t, clientFrom(t, client), "http://"+p.listen+"/")
		return resp.StatusCode == http.StatusTooManyRequests && resp.Header.Get("Retry-After") != "" && listed(p, client, "node")
	}
	unban := func(p *process, client string) {
		t.Helper()
		if code, _, stderr := command(t, nil, "unban", client, "--admin", p.admin); code != 0 {
			t.Errorf("unban: exit %d: %s", code, stderr)
		}
	}
	const first, second, third = "127.0.7.1", "127.0.7.2", "127.0.7.3"

	flood(first)
	start := time.Now()
	redistest.Eventually(t, "the ban at the second node", func() bool { return listed(b, first, "node") })
	if !listed(a, first, "rule") || !told(b, first) {
		t.Error("not banned")
	}
	if resp, _ := get(t, clientFrom(t, first), "http://"+c.listen+"/"); resp.StatusCode != http.StatusOK || listed(c, first, "node") {
		t.Errorf("banned at a node that does not accept it: %d", resp.StatusCode)
	}
	redistest.Eventually(t, "the third node to hear of it", func() bool { return c.metric(t, `fastlimit_sync_bans_refused_total{reason="not_accepted"}`) > 0 })
	if b.metric(t, "fastlimit_sync_bans_applied_total") != 1 || a.metric(t, `fastlimit_sync_bans_total{direction="sent"}`) != 1 {
		t.Error("metrics are wrong")
	}

	flood(second)
	flood(third)
	redistest.Eventually(t, "two more", func() bool { return listed(b, second, "node") && listed(b, third, "node") })
	unban(a, second)
	redistest.Eventually(t, "the end at the second node", func() bool { return !listed(b, second, "node") })
	if listed(a, second, "rule") {
		t.Error("unbanned and still listed")
	}
	unban(b, third)

	redistest.Eventually(t, "its time to be over", func() bool { return !listed(b, first, "node") && !listed(a, first, "rule") })
	if took := time.Since(start); took < 15*time.Second {
		t.Errorf("a ban of 20 s ended after %v", took)
	}
	// Repetitions came meanwhile, every ten seconds.
	if listed(b, third, "node") || b.metric(t, "fastlimit_sync_bans_applied_total") != 3 {
		t.Error("what an operator ended came back")
	}
	for _, p := range []*process{b, c} {
		if p.metric(t, `fastlimit_sync_bans_total{direction="sent"}`) != 0 {
			t.Error("what others have told was told on")
		}
	}
}
