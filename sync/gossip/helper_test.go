package gossip

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/testkit"
)

const testSecret = "correct horse battery staple"

// logs keeps what is logged.
type logs struct{ testkit.Log }

// lines are those that hold a text.
func (l *logs) lines(text string) (all []string) {
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, text) {
			all = append(all, strings.TrimSpace(line))
		}
	}
	return all
}

// testNode is a node of a test.
type testNode struct {
	*Cluster
	lim  *fastlimit.Limiter
	rule *fastlimit.Rule
	logs *logs
}

// newLimiter has one rule of burst 100 that suspects from 50 on.
func newLimiter(t testing.TB, name, secret string, perSecond uint64, change ...func(*fastlimit.Config)) *fastlimit.Limiter {
	t.Helper()
	c := fastlimit.Config{
		Rules:  []fastlimit.RuleConfig{{Name: "r", Rate: fastlimit.Rate{N: perSecond, Per: time.Second}, Burst: 100}},
		Memory: 2 << 20, TopTalkers: 256, Nodes: 3, Secret: LimiterSecret(name, secret),
	}
	for _, f := range change {
		f(&c)
	}
	lim, err := fastlimit.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return lim
}

// node starts a node on a free port of the loopback. change may be nil. Nothing
// to speak of leaks while a test runs.
func node(t testing.TB, change func(*Config)) *testNode {
	t.Helper()
	return nodeAt(t, 1, change)
}

// nodeAt is node with a rate.
func nodeAt(t testing.TB, perSecond uint64, change func(*Config)) *testNode {
	t.Helper()
	return nodeOf(t, perSecond, &testNode{}, change)
}

// nodeOf starts the node n, with a limiter that is changed.
func nodeOf(t testing.TB, perSecond uint64, n *testNode, change func(*Config), limiter ...func(*fastlimit.Config)) *testNode {
	t.Helper()
	n.logs = &logs{}
	c := Config{Name: "test", Secret: testSecret, Bind: "127.0.0.1:0", Interval: 20 * time.Millisecond}
	c.Logger = slog.New(slog.NewTextHandler(n.logs, nil))
	if change != nil {
		change(&c)
	}
	n.lim = newLimiter(t, c.Name, c.Secret, perSecond, limiter...)
	n.rule, _ = n.lim.Rule("r")
	var err error
	if n.Cluster, err = Start(context.Background(), c, n.lim); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.Close()
		if t.Failed() {
			t.Logf("log of %s:\n%s", n.Node(), strings.Join(n.logs.lines(""), "\n"))
		}
	})
	return n
}

// joining starts a node that asks the others.
func joining(t testing.TB, others ...*testNode) *testNode {
	t.Helper()
	return node(t, func(c *Config) {
		for _, o := range others {
			c.Join = append(c.Join, o.Addr().String())
		}
	})
}

// kill ends the node without a word to the others.
func (n *testNode) kill() { n.ended.Do(func() { n.end(false) }) }

// flood has a client ask a node so often.
func (n *testNode) flood(addr string, times int) (admitted int) {
	k := n.rule.AddrKey(netip.MustParseAddr(addr))
	for range times {
		if n.rule.Allow(k) {
			admitted++
		}
	}
	return admitted
}

// suspects reports whether the node would check the client exactly.
func (n *testNode) suspects(addr string) bool {
	d := n.rule.Peek(n.rule.AddrKey(netip.MustParseAddr(addr)), 1)
	return d.Stage == fastlimit.StageExact || d.Stage == fastlimit.StageTable
}

// patience bounds waits that only a bug makes long.
const patience = 2 * time.Minute

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	testkit.Eventually(t, what, ok)
}

// together waits until all know each other.
func together(t testing.TB, nodes ...*testNode) {
	t.Helper()
	var names []string
	for _, n := range nodes {
		names = append(names, n.Node())
	}
	slices.Sort(names)
	for _, n := range nodes {
		want := slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s == n.Node() })
		eventually(t, "peers of "+n.Node(), func() bool { return slices.Equal(n.Peers(), want) })
	}
}
