package delta

import (
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
)

var _ Rule = (*engine.Rule)(new(fastlimit.Rule))

func reasonOf(r *Rejected) Reason {
	if r == nil {
		return accepted
	}
	return r.Reason
}

// What is known of a node outlives its membership, not its incarnation.
func TestMembership(t *testing.T) {
	t.Parallel()
	a, b := newTestNode(t, "a", 64, nil), newTestNode(t, "b", 64, nil)
	receive := func(want Reason, charged uint64) {
		t.Helper()
		got := accepted
		for _, p := range a.tick(0) {
			got = reasonOf(b.Receive(p, 0))
		}
		if got != want || b.rule.total() != charged {
			t.Errorf("got %v and %d units, want %v and %d", got, b.rule.total(), want, charged)
		}
	}
	a.rule.hit(1, 10)
	receive(UnknownNode, 0)
	b.Join("a", 2, 0)
	receive(StaleIncarnation, 0)
	b.Join("a", 1, 0)
	receive(accepted, 10)
	b.Leave("a", 1)
	a.rule.hit(1, 5)
	receive(UnknownNode, 10)
	b.Join("a", 1, 2) // back after a partition
	receive(accepted, 15)
	b.Join("a", 1, 3) // joins twice
	receive(accepted, 15)

	a2 := newTestNode(t, "a", 64, func(c *Config) { c.Incarnation = 2 })
	b.Join("a", 2, 4) // a restarted: its counts begin anew
	receive(StaleIncarnation, 15)
	a = a2
	a.rule.hit(1, 3)
	receive(accepted, 18)
	if st := b.Stats(); st.Mirrors != 1 || len(st.Peers) != 1 || st.ChargedUnits != 18 {
		t.Errorf("%+v", st)
	}
	b.Join("b", 9, 5) // a list of members has this node too
	if n := len(b.Stats().Peers); n != 1 {
		t.Errorf("%d peers", n)
	}
}

// There is room for so many nodes; who left first makes place.
func TestMaxNodes(t *testing.T) {
	t.Parallel()
	b := newTestNode(t, "b", 64, func(c *Config) { c.MaxNodes = 2 })
	receive := func(node string) Reason {
		return reasonOf(b.Receive(packet(func(h *header) { h.node = []byte(node) }, oneRule(64, good)), 0))
	}
	for _, n := range []string{"x", "y", "z"} {
		b.Join(n, 1, 0)
	}
	if x, y, z := receive("x"), receive("y"), receive("z"); x != accepted || y != accepted || z != TooManyNodes {
		t.Errorf("got %v %v %v", x, y, z)
	}
	b.Leave("y", 1)
	b.Leave("x", 2)
	if z := receive("z"); z != accepted || b.mirrors["x"] == nil || b.mirrors["y"] != nil {
		t.Errorf("got %v, mirrors %v", z, b.mirrors)
	}
	b.Join("x", 1, 3)
	b.Join("y", 1, 3)
	if x, y := receive("x"), receive("y"); x != accepted || y != TooManyNodes || b.rule.total() != 3*7 {
		t.Errorf("got %v %v, charged %d", x, y, b.rule.total())
	}
}

// Growth beyond what a node can have seen is recorded and not charged, then or
// later.
func TestCap(t *testing.T) {
	t.Parallel()
	a := newTestNode(t, "a", 64, nil)
	b := newTestNode(t, "b", 64, func(c *Config) { c.maxRate = 1000 })
	b.knows(a)
	receive := func(hits uint64, now time.Duration, charged, capped uint64) {
		t.Helper()
		a.rule.hit(1, hits)
		b.mustReceive(t, a.tick(now), now)
		if got := b.Stats().Rejected[Cap]; b.rule.total() != charged || got != capped {
			t.Errorf("at %v: charged %d, capped %d times, want %d and %d", now, b.rule.total(), got, charged, capped)
		}
	}
	receive(50_000, 0, 50_000, 0)                         // before anybody listened
	receive(1500, 0, 51_000, 1)                           // a second's worth at once, and no more
	receive(500, tick, 51_100, 2)                         // 100 ms later
	receive(100, 2*tick, 51_200, 2)                       // what was left out is not made up for
	receive(30_000, 31*time.Second, 51_200+30_000, 2)     // after a silence
	receive(4_000_000, 10*time.Hour, 81_200+3_600_000, 3) // an hour's worth at most
	receive(1, time.Minute, 81_200+3_600_000, 4)          // a clock that steps back gives nothing
}

// A name goes along when a client is new in its slot and with the sweep, not
// with what grew.
func TestNames(t *testing.T) {
	t.Parallel()
	a := newTestNode(t, "a", 400, small)
	for i := range uint64(300) {
		a.rule.hit(i, 1)
	}
	for range 50 {
		a.tick(0)
	}
	a.rule.hit(1000, 5)
	for i := range uint64(20) {
		a.rule.hit(i, 100)
	}
	named, grown := 0, 0
	for _, p := range a.tick(0) {
		r := reader{b: p[4:]}
		r.header()
		for r.more() {
			s := r.section()
			for range s.entries {
				e := r.entry(&s)
				if e.pos == testDigest(1000).Pos && len(e.name) > 0 {
					named++
				}
				if e.count > 100 && len(e.name) == 0 {
					grown++
				}
			}
		}
	}
	if named != 1 || grown < 8 {
		t.Errorf("the new client is named %d times, %d of 20 that grew are not", named, grown)
	}
}

func TestConfigErrors(t *testing.T) {
	t.Parallel()
	r := newTestRule(t, "r", 8)
	_, err := New(Config{
		Node: strings.Repeat("n", 129), PacketSize: 100, MaxBytes: 99, MaxNodes: -1, Rules: []Rule{r, r},
	})
	for _, want := range []string{"Cluster is empty", "Node has 129 bytes", "PacketSize 100", "MaxBytes 99", "MaxNodes -1", `rules "r" and "r" have one identity`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
	s, err := New(Config{Cluster: "c", Node: "n", Rules: []Rule{&testRule{name: "without a table"}, r}})
	if err != nil || len(s.rules) != 1 {
		t.Fatalf("%v, %d rules", err, len(s.rules))
	}
	if st := s.Stats(); len(st.Rules) != 1 || st.Rules[0].Slots != 8 || st.Rules[0].Epoch != time.Hour {
		t.Errorf("%+v", st)
	}
}
