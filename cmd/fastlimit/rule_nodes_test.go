package main

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// On three nodes a rule is changed by one of them, while another is away: it is said which, and that
// one follows when it is back.
func TestRuleOnAllNodes(t *testing.T) {
	severalPrograms(t)
	t.Parallel()
	var nodes []*process
	var seeds []string
	at := func(i int, bind string) *process {
		settings := strings.Replace(clusterSettings(fmt.Sprintf("n%d", i), bind, seeds), "max_nodes: 3", "max_nodes: 3, accept_rules: true", 1)
		return serve(t, "-c", writeFile(t, "node.yaml", settings+"rules: [{name: r, rate: 100/s}]\n"))
	}
	for i := range 3 {
		nodes = append(nodes, at(i, "127.0.0.1:0"))
		seeds = append(seeds, nodes[i].clusterAddr(t))
	}
	for _, p := range nodes {
		p.waitPeers(t, 2)
	}
	run := func(p *process, args ...string) string {
		t.Helper()
		code, stdout, stderr := command(t, nil, append(args, "--admin", p.admin)...)
		return fmt.Sprint(code, " ", stdout, stderr)
	}
	shows := func(p *process, want string) bool { return strings.Contains(run(p, "rule", "r"), want) }

	if got := run(nodes[0], "rule", "r", "rate=50/s", "--all-nodes"); got != "0 r: enforce, 50/s burst 50 for 1h0m0s, then enforce, 100/s burst 100 again\nnode n1: the same\nnode n2: the same\n" {
		t.Error(got)
	}
	for i, p := range nodes {
		if !shows(p, "r     enforce  50/s burst 50  enforce, 100/s burst 100") {
			t.Errorf("node %d: %s", i, run(p, "rule"))
		}
	}
	nodes[2].signal(syscall.SIGKILL)
	nodes[2].wait()
	testkit.Eventually(t, "n2 is gone", func() bool { return len(nodes[1].info(t).Cluster.Peers) == 1 })
	got := run(nodes[1], "rule", "r", "mode=shadow", "--for", "20m", "--all-nodes")
	if want := `^1 r: shadow, 50/s burst 50 for 20m0s, then enforce, 100/s burst 100 again\nnode n0: the same\nnode n2: it is away\nfastlimit rule: 1 of 2 other nodes have not applied the change; a node that was away does when it is back\n$`; !regexp.MustCompile(want).MatchString(got) {
		t.Error(got)
	}
	back := at(2, seeds[2])
	testkit.Eventually(t, "n2 follows", func() bool { return shows(back, "r     shadow  50/s burst 50  enforce, 100/s burst 100  ") })
	if got := run(back, "changes"); !regexp.MustCompile(`127\.0\.0\.1 at node n1 +live rule set +change=mode=shadow rate=50/s rule=r until=`).MatchString(got) {
		t.Error(got)
	}
	for _, p := range nodes[:2] {
		p.waitPeers(t, 2)
	}
	if got := run(back, "rule", "r", "--undo", "--all-nodes"); got != "0 r: enforce, 100/s burst 100, as in the file\nnode n0: the same\nnode n1: the same\n" {
		t.Error(got)
	}
	for i, p := range []*process{nodes[0], nodes[1], back} {
		if !shows(p, "r     enforce  100/s burst 100  -") {
			t.Errorf("node %d: %s", i, run(p, "rule"))
		}
	}
	alone := serve(t)
	if got := run(alone, "rule", "per-ip", "mode=shadow", "--all-nodes"); !strings.HasSuffix(got, "this node is not in a cluster: leave out --all-nodes\n") || got[0] != '1' {
		t.Error(got)
	}
	if got := run(alone, "rule", "--all-nodes"); !strings.HasPrefix(got, "2 fastlimit: --all-nodes: nothing to change; ") {
		t.Error(got)
	}
}
