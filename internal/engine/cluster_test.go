package engine

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// TestPeersMakeSuspects: what peers counted makes a client a suspect, which is checked exactly and, having
// sent nothing here, admitted.
func TestPeersMakeSuspects(t *testing.T) {
	t.Parallel()
	lim := mustNew(t, rule("a", 1, time.Second, 20), rule("no sketch", 1, time.Second, 5))
	r := lim.rules[0]
	key := r.AddrKey(netip.MustParseAddr("192.0.2.7"))
	takeAt(r, key, 1, 0) // passes by the filter
	if d := takeAt(r, key, 1, 0); d.Stage != limit.StageSketch {
		t.Fatalf("without peers: %+v", d)
	}
	chargePeerAt(r, key.digest().Pos, 7, 0)
	if d := takeAt(r, key, 1, 0); d.Stage != limit.StageSketch {
		t.Errorf("below the threshold: %+v", d)
	}
	chargePeerAt(r, key.digest().Pos, 1, 0)
	for range 20 {
		if d := takeAt(r, key, 1, 0); d.Stage != limit.StageExact || !d.Allowed {
			t.Fatalf("a suspect within its limit: %+v", d)
		}
	}
	if d := takeAt(r, r.BytesKey([]byte("y")), 2, 0); d.Stage != limit.StageSketch {
		t.Errorf("another client: %+v", d)
	}
	lim.rules[1].ChargePeer(1, 1) // must not panic
}

// TestPeerChargesSaturate: however much a peer reports, the client is forgotten when the sketch's limit has
// leaked, and not before the reported units have.
func TestPeerChargesSaturate(t *testing.T) {
	t.Parallel()
	for _, units := range []uint64{1, 19, 1000, 1 << 40, 1 << 59, math.MaxUint64} {
		lim := mustNew(t, rule("a", 10, time.Second, 20))
		r := lim.rules[0]
		d := r.BytesKey([]byte("x")).digest()
		limit := lim.plan.Rules[0].SketchLimit()
		for range 3 {
			chargePeerAt(r, d.Pos, units, 0)
		}
		now := r.buckets.Shape.Ticks(setTime(lim, 0))
		want := limit
		if units < 1000 {
			want = 3 * units * r.buckets.Shape.Unit()
		}
		if got := r.sketch.Level(d, now); got != want {
			t.Errorf("%d units thrice: level %d, want %d", units, got, want)
		}
		r.sketch.Add(d, now, r.buckets.Shape.Unit()) // still counts, up to the limit
		if got := r.sketch.Level(d, now); got < want || got > limit+r.buckets.Shape.Unit() {
			t.Errorf("%d units thrice and a hit: level %d", units, got)
		}
	}
}

// testCluster is nodes that share a store and exchange counts when asked to.
type testCluster struct {
	nodes []*Limiter
	told  [][]sketch.Slot // by node and slot
	turns time.Time       // the next end of an epoch
}

func newTestCluster(t *testing.T, nodes int, rc limit.RuleConfig) *testCluster {
	t.Helper()
	store, c := newSlowStore(t), &testCluster{}
	for range nodes {
		lim, err := New(Config{Rules: []limit.RuleConfig{rc}, Store: store, Memory: 4 << 20, TopTalkers: 64, Nodes: nodes, Secret: [32]byte{1}})
		if err != nil {
			t.Fatal(err)
		}
		c.nodes = append(c.nodes, lim)
		c.told = append(c.told, make([]sketch.Slot, 64))
	}
	c.turns = time.Now().Add(c.nodes[0].rules[0].epoch)
	return c
}

// exchange sends every node what the others counted since the last time.
func (c *testCluster) exchange() {
	for i, from := range c.nodes {
		talkers := from.rules[0].talkers
		for slot := range c.told[i] {
			last := c.told[i][slot]
			s := &c.told[i][slot]
			talkers.Read(slot, s)
			if s.Gen != last.Gen {
				last.Count = 0
			}
			for j, to := range c.nodes {
				if j != i && s.Count > last.Count {
					to.rules[0].ChargePeer(s.Pos, s.Count-last.Count)
				}
			}
		}
	}
	if !time.Now().Before(c.turns) {
		c.turns = time.Now().Add(c.nodes[0].rules[0].epoch)
		for _, n := range c.nodes {
			n.rules[0].talkers.Turn()
		}
	}
}

// take sends one request to a node.
func (c *testCluster) take(t *testing.T, node int, client string) bool {
	r := c.nodes[node].rules[0]
	return r.Take(t.Context(), r.BytesKey([]byte(client)), 1).Allowed
}

// TestClusterBound: a client that floods all nodes at once, and again each
// time that their sketches have forgotten it, keeps to the bound.
func TestClusterBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes = 10
		rc := rule("a", 100, time.Second, 200)
		c := newTestCluster(t, nodes, rc)
		plan := c.nodes[0].Plan()
		rate, burst := plan.Rules[0].ClusterBound(0)
		start, admitted := time.Now(), uint64(0)
		for cycle := range 40 {
			for node := range nodes {
				for c.take(t, node, "flood") {
					admitted++
				}
			}
			c.exchange()
			s := time.Since(start).Seconds()
			if most := burst + uint64(rate*s); admitted > most {
				t.Fatalf("cycle %d: %d admitted in %v s, bound %d", cycle, admitted, s, most)
			}
			time.Sleep(time.Duration(2+cycle%3) * time.Second)
		}
		if s := time.Since(start).Seconds(); float64(admitted) < 90*s {
			t.Errorf("%d admitted in %v s, want the rate", admitted, s)
		}
	})
}

// TestClusterFindsSpreadClients: a client that stays just below the rate at
// each of three nodes, where alone its level is 0, is cut to the rate; one that
// keeps to the limit in all is never denied, whatever the nodes tell.
func TestClusterFindsSpreadClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes, seconds, lag = 3, 60, 100 * time.Millisecond
		c := newTestCluster(t, nodes, rule("a", 100, time.Second, 200))
		plan := c.nodes[0].Plan()
		rate, burst := plan.Rules[0].ClusterBound(lag)
		rng := rand.New(rand.NewPCG(1, 1))
		cut, tick := 0, 0
		// 285 requests in a second of the one, 90 of the other.
		for tick = range seconds * 1000 {
			time.Sleep(time.Millisecond)
			if tick*285/1000 != (tick+1)*285/1000 && c.take(t, tick%nodes, "spread") {
				cut++
			}
			if tick*90/1000 != (tick+1)*90/1000 && !c.take(t, tick%nodes, "conforming") {
				t.Fatalf("a client at 0.9 r was denied after %d ms", tick)
			}
			if tick%int(lag/time.Millisecond) == 0 {
				c.exchange()
				for _, n := range c.nodes { // peers may err, and lie
					r := n.rules[0]
					r.ChargePeer(r.BytesKey([]byte("conforming")).digest().Pos, rng.Uint64N(100))
				}
			}
		}
		if most := rate*seconds + float64(burst); float64(cut) > most {
			t.Errorf("%d admitted in %d s, bound %v", cut, seconds, most)
		}
		if cut > 110*seconds {
			t.Errorf("%d admitted in %d s: more than 1.1 r", cut, seconds)
		}
	})
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	identity := func(secret byte, change func(*limit.RuleConfig)) uint64 {
		rc := rule("a", 60, time.Minute, 20)
		rc.KeyKind = "ip"
		change(&rc)
		lim, err := New(Config{Rules: []limit.RuleConfig{rc}, Secret: [32]byte{secret}})
		if err != nil {
			t.Fatal(err)
		}
		return lim.rules[0].Identity()
	}
	same := identity(1, func(*limit.RuleConfig) {})
	for name, change := range map[string]func(*limit.RuleConfig){
		"nothing": func(*limit.RuleConfig) {},
		"a rate":  func(c *limit.RuleConfig) { c.Rate = limit.Rate{N: 1, Per: time.Second} }, // the same one
	} {
		if identity(1, change) != same {
			t.Errorf("%s makes it another rule", name)
		}
	}
	seen := map[uint64]string{same: "nothing"}
	for name, change := range map[string]func(*limit.RuleConfig){
		"name":     func(c *limit.RuleConfig) { c.Name = "b" },
		"framing":  func(c *limit.RuleConfig) { c.Name, c.KeyKind = "ai", "p" },
		"framing2": func(c *limit.RuleConfig) { c.Name, c.KeyKind = "aip", "" },
	} {
		id := identity(1, change)
		if other, taken := seen[id]; taken {
			t.Errorf("%s and %s have one identity", name, other)
		}
		seen[id] = name
	}
	if identity(2, func(*limit.RuleConfig) {}) == same {
		t.Error("another secret, the same identity: the nodes' digests differ")
	}
}

func TestEpoch(t *testing.T) {
	t.Parallel()
	lim := mustNew(t, rule("fast", 100, time.Second, 200), rule("slow", 1, time.Minute, 20))
	if got := lim.rules[0].epoch; got != 10*time.Second {
		t.Errorf("fast: %v, want 10s", got)
	}
	if got := lim.rules[1].epoch; got < 32*time.Minute || got > 33*time.Minute {
		t.Errorf("slow: %v, want its drain time, (1.5·20 + 2) min", got)
	}
}
