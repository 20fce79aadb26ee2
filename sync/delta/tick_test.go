package delta

import (
	"fmt"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// However many clients there are, a tick keeps its ceiling, sends what grew
// most, and knows the most that it left out.
func TestCeiling(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{0, 0}, {1024, 512}, {80 << 10, 32 << 10}, {5000, 1350}, {64 << 10, 700}} {
		for _, keys := range []int{0, 1, 10, 1000, 20_000} {
			t.Run(fmt.Sprintf("%d keys in %d", keys, size[0]), func(t *testing.T) {
				t.Parallel()
				a := newTestNode(t, "a", 4096, func(c *Config) { c.MaxBytes, c.PacketSize = size[0], size[1] })
				rng := newRand(uint64(keys))
				for round := range 5 {
					for range 2 * keys {
						a.rule.hit(uint64(rng.IntN(keys)), 1+rng.Uint64N(9))
					}
					ceiling(t, a, time.Duration(round)*tick)
				}
			})
		}
	}
}

func ceiling(t *testing.T, a *testNode, now time.Duration) {
	t.Helper()
	total := 0
	packets := a.tick(now)
	for _, p := range packets {
		total += len(p)
		if len(p) > a.config.PacketSize {
			t.Errorf("a packet of %d bytes", len(p))
		}
		if r := (reader{b: p[4:]}); !wellFormed(func() []byte { r.header(); return r.b }()) {
			t.Error("a packet is malformed")
		}
	}
	if len(packets) == 0 || total > a.config.MaxBytes {
		t.Errorf("%d bytes in %d packets", total, len(packets))
	}
	var s sketch.Slot
	unsent, live := uint64(0), 0
	for i := range a.rules[0].slots {
		a.rule.talkers.Read(i, &s)
		if !s.Live {
			continue
		}
		live++
		if o := &a.rules[0].slots[i]; o.gen != s.Gen {
			unsent = max(unsent, s.Count)
		} else {
			unsent = max(unsent, s.Count-o.count)
		}
	}
	if got := a.Stats().Rules[0]; got.Unsent != unsent || got.Live != live {
		t.Errorf("unsent %d live %d, want %d and %d", got.Unsent, got.Live, unsent, live)
	}
	if room := a.config.MaxBytes - total; unsent > 0 && room > minPacketSize {
		t.Errorf("%d bytes stay empty while %d units wait", room, unsent)
	}
}

// The slots that are sent for their growth grew at least as much as any that
// is left out.
func TestLargestFirst(t *testing.T) {
	t.Parallel()
	rng := newRand(1)
	for range 300 {
		p := picks{}
		p.begin(1 + rng.IntN(3000))
		n := rng.IntN(400)
		growths := make([]uint64, n)
		for i := range n {
			growths[i] = rng.Uint64N(100)
			p.offer(pick{growth: growths[i], slot: uint32(i), size: 15})
		}
		kept := map[uint32]bool{}
		least := ^uint64(0)
		for _, k := range p.heap {
			kept[k.slot] = true
			least = min(least, k.growth)
		}
		if want := min(n, p.share/15); len(kept) != want || p.bytes != want*15 {
			t.Fatalf("%d of %d kept in %d of %d bytes, want %d", len(kept), n, p.bytes, p.share, want)
		}
		for i, g := range growths {
			if !kept[uint32(i)] && g > least {
				t.Fatalf("growth %d left out, %d kept", g, least)
			}
		}
	}
}

// An idle cluster sends little, and a tick without anything to send says that
// the node is there.
func TestIdle(t *testing.T) {
	t.Parallel()
	a, b := newTestNode(t, "a", 4096, nil), newTestNode(t, "b", 4096, nil)
	b.knows(a)
	p := a.tick(0)
	b.mustReceive(t, p, 0)
	if len(p) != 1 || len(p[0]) > 32 {
		t.Errorf("nothing to send in %d packets, %d bytes", len(p), len(p[0]))
	}
	for i := range uint64(5) {
		a.rule.hit(i, 3)
	}
	for range 3 {
		p = a.tick(0)
		if len(p) != 1 || len(p[0]) > 200 {
			t.Errorf("5 clients in %d packets, %d bytes", len(p), len(p[0]))
		}
	}
}

// Epochs are turned here, on the caller's clock.
func TestEpoch(t *testing.T) {
	t.Parallel()
	a := newTestNode(t, "a", 4, nil)
	a.rule.epoch = 10 * time.Second
	weight := func() uint64 {
		var s sketch.Slot
		total := uint64(0)
		for i := range 4 {
			a.rule.talkers.Read(i, &s)
			total += s.Weight
		}
		return total
	}
	for i := range uint64(4) {
		a.rule.hit(i, 10+i)
	}
	a.rule.hit(4, 2) // finds no slot
	now := 7 * time.Hour
	a.tick(now)
	a.tick(now + 9900*time.Millisecond)
	if w := weight(); w != 46 {
		t.Errorf("weights of %d before the epoch ends", w)
	}
	if h := a.Stats().Rules[0].Hidden; h != 2 {
		t.Errorf("hidden %d, want 2", h)
	}
	a.tick(now + 10*time.Second)
	if h := a.Stats().Rules[0].Hidden; h != 2 {
		t.Errorf("hidden %d in the epoch before, want 2", h)
	}
	a.tick(now + 15*time.Second)
	a.tick(now + 20*time.Second)
	if w := weight(); w != 0 {
		t.Errorf("weights of %d after two silent epochs", w)
	}
	a.tick(now + 25*time.Second)
	a.tick(now + 30*time.Second)
	if st := a.Stats().Rules[0]; st.Live != 0 || st.Hidden != 0 {
		t.Errorf("%+v after silence", st)
	}
}

// A tick allocates nothing, nor does the merge of what is known by and large.
func TestNoAllocations(t *testing.T) {
	a, b := newTestNode(t, "a", 1024, nil), newTestNode(t, "b", 1024, nil)
	b.knows(a)
	now, c := time.Duration(0), uint64(0)
	step := func() {
		now += tick
		for range 100 {
			c++
			a.rule.talkers.Add(testDigest(c%500), 1)
		}
		for _, p := range a.Tick(now) {
			if err := b.Receive(p, now); err != nil {
				t.Error(err)
			}
		}
	}
	for i := range uint64(500) {
		a.rule.hit(i, 1)
		b.rule.charged[testDigest(i).Pos] = 0
	}
	for range 100 {
		step()
	}
	if n := testing.AllocsPerRun(100, step); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// What a node hides counts what waits for room, on top of what its table misses,
// and the peers learn it.
func TestHiddenHasWhatWaits(t *testing.T) {
	t.Parallel()
	a, b := newTestNode(t, "a", 512, small), newTestNode(t, "b", 512, nil)
	b.knows(a)
	a.tick(0)
	for c := range uint64(2000) {
		a.rule.hit(c, 50)
	}
	b.mustReceive(t, a.tick(tick), tick) // has room for some 40
	st := a.Stats().Rules[0]
	if st.Unsent < 50 || st.Floor < 50 || st.Hidden != st.Floor+st.Unsent {
		t.Errorf("%+v: want all that is hidden of a client", st)
	}
	b.mustReceive(t, a.tick(2*tick), 2*tick)
	if got := b.mirrors["a"].tables[0].hidden; got < st.Floor+st.Unsent {
		t.Errorf("sent %d hidden units, want %d and %d at least", got, st.Floor, st.Unsent)
	}
}
