package delta

import (
	"bytes"
	"math"
	"testing"
	"time"
)

// section of "per-ip" that says what it hides.
func hiding(hidden, grain uint64, entries ...entry) []byte {
	b := appendSection(nil, &section{identity: clusterHash("per-ip"), slots: 64, hidden: hidden, grain: grain})
	setEntries(b[len(b)-2:], len(entries))
	for i := range entries {
		b = appendEntry(b, &entries[i])
	}
	return b
}

// at is a packet of a tick of node a.
func at(seq uint64, sections ...[]byte) []byte {
	return packet(func(h *header) { h.seq = seq }, sections...)
}

// What a node may not have sent is as of its latest tick: an old packet, late or
// replayed, changes nothing, neither does one of the same tick that another
// section of it was lost of.
func TestHiddenIsOfTheLatestTick(t *testing.T) {
	t.Parallel()
	b := newTestNode(t, "b", 64, nil)
	b.Join("a", 1, 0)
	receive := func(seq, hidden, grain, wantHidden, wantGrain uint64) {
		t.Helper()
		b.mustReceive(t, [][]byte{at(seq, hiding(hidden, grain, good))}, 0)
		if m := &b.mirrors["a"].tables[0]; m.hidden != wantHidden || m.grain != wantGrain {
			t.Errorf("tick %d says %d and %d: known are %d and %d, want %d and %d", seq, hidden, grain, m.hidden, m.grain, wantHidden, wantGrain)
		}
	}
	receive(5, 100, 8, 100, 8)
	receive(4, 0, 1, 100, 8)            // would show an attacker's rate as certain
	receive(3, maxCount, 64, 100, 8)    // would make all rates useless
	receive(5, 100, 8, 100, 8)          // another packet of the tick
	receive(9, 0, 1, 0, 1)              // less is hidden now
	receive(5, 100, 8, 0, 1)            // and a replay changes nothing
	receive(math.MaxUint64, 7, 2, 7, 2) // a member that lies about its tick
	receive(10, 0, 1, 7, 2)             // is ignored until it restarts
	a2 := packet(func(h *header) { h.seq, h.incarnation = 1, 2 }, hiding(3, 4, good))
	b.Join("a", 2, 1)
	b.mustReceive(t, [][]byte{a2}, 1)
	if m := &b.mirrors["a"].tables[0]; m.hidden != 3 || m.grain != 4 {
		t.Errorf("of the next life: %d and %d, want 3 and 4", m.hidden, m.grain)
	}
}

// Replays keep no silent node alive: neither its lag, nor the silence after which
// what comes at once is no rate, nor the growth that it is believed.
func TestReplaysDoNotLookAlive(t *testing.T) {
	t.Parallel()
	b := newTestNode(t, "b", 64, func(c *Config) { c.maxRate = 100 })
	b.Join("a", 1, 0)
	count := func(n uint64) []byte { return hiding(0, 1, entry{slot: 1, gen: 1, count: n, pos: 9}) }
	b.mustReceive(t, [][]byte{at(1, count(10)), at(2, count(20))}, 0)
	b.Tick(0)
	for now := time.Second; now <= 20*time.Second; now += time.Second {
		b.mustReceive(t, [][]byte{at(1, count(10)), at(2, count(20))}, now)
		b.Tick(now)
	}
	if lag := b.Stats().Peers[0].Lag; lag != 20*time.Second {
		t.Errorf("a node that is replayed has a lag of %v, want 20 s", lag)
	}
	b.mustReceive(t, [][]byte{at(3, count(1020))}, 20*time.Second)
	if charged := b.rule.total(); charged != 1020 {
		t.Errorf("%d units charged, want 1020: 20 s of 100/s may have piled up", charged)
	}
	if top := b.Top(1, 20*time.Second); len(top) != 0 {
		t.Errorf("what piled up in a silence is shown as a rate: %+v", top)
	}
}

// A clock that steps back and on again gives a node nothing.
func TestClockStepsBack(t *testing.T) {
	t.Parallel()
	b := newTestNode(t, "b", 64, func(c *Config) { c.maxRate = 100 })
	b.Join("a", 1, 0)
	for i, step := range []struct {
		now     time.Duration
		count   uint64
		charged uint64
	}{
		{10 * time.Second, 1, 1},
		{10 * time.Second, 10_001, 101}, // a second's worth
		{0, 20_001, 101},
		{10 * time.Second, 30_001, 101}, // no time has passed
		{11 * time.Second, 40_001, 201},
	} {
		b.mustReceive(t, [][]byte{at(uint64(i+1), hiding(0, 1, entry{slot: 1, gen: 1, count: step.count, pos: 9}))}, step.now)
		if got := b.rule.total(); got != step.charged {
			t.Fatalf("step %d at %v: charged %d, want %d", i, step.now, got, step.charged)
		}
	}
}

// A client that takes a slot over from another, of a node that is received all the
// time, has a rate at once: the slot was silent no longer than the node.
func TestNewClientOfAKnownSlot(t *testing.T) {
	t.Parallel()
	b := newTestNode(t, "b", 64, nil)
	b.Join("a", 1, 0)
	b.Tick(0)
	b.mustReceive(t, [][]byte{at(1, hiding(0, 1, entry{slot: 1, gen: 1, count: 5, pos: 9, name: []byte("x")}))}, tick)
	b.mustReceive(t, [][]byte{at(2, hiding(0, 1, entry{slot: 1, gen: 2, count: 400, pos: 10, name: []byte("y")}))}, 2*tick)
	if top := b.Top(1, 2*time.Second); len(top) != 1 || top[0].Key != "y" || top[0].Rate != 200 {
		t.Errorf("%+v, want y with 200/s", top)
	}
}

// Shed units that a node cannot have seen are recorded, and no rate.
func TestShedIsCapped(t *testing.T) {
	t.Parallel()
	b := newTestNode(t, "b", 64, func(c *Config) { c.maxRate = 1000 })
	b.Join("a", 1, 0)
	b.Tick(0)
	for i, shed := range []uint64{0, 500, maxCount} {
		b.mustReceive(t, [][]byte{at(uint64(i+1), hiding(0, 1, entry{slot: 1, gen: 1, count: 1, shed: shed, pos: 9, name: []byte("x")}))}, tick)
	}
	if top := b.Top(1, time.Second); len(top) != 1 || top[0].Rate != 1000 {
		t.Errorf("%+v, want 1000/s", top)
	}
	if st := b.Stats(); st.Rejected[Cap] != 1 || st.ChargedUnits != 1 {
		t.Errorf("capped %d times, %d units charged: shed units are charged to nobody", st.Rejected[Cap], st.ChargedUnits)
	}
}

// FuzzSchedule: the packets of one incarnation of node a, some ticks of it lost, come to b
// in any order and any number of times, between ticks, silences and other incarnations
// of a. Nothing is charged that a did not count, nothing twice, and in the end b
// knows what a node does that received everything once, in order.
func FuzzSchedule(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Add([]byte{9, 9, 250, 3, 251, 3, 3, 252, 7, 253, 0, 0, 254, 1, 255})
	f.Add(bytes.Repeat([]byte{200, 30, 20, 10, 251}, 40))
	a := newTestNode(f, "a", 16, small)
	a.rule.epoch = 10 * time.Second
	rng := newRand(1)
	counted := map[uint64]uint64{}
	var packets [][]byte
	for i := range 40 {
		for range rng.IntN(30) {
			c, n := rng.Uint64N(40), 1+rng.Uint64N(4)
			a.rule.hit(c, n)
			counted[testDigest(c).Pos] += n
		}
		packets = append(packets, a.tick(time.Duration(i)*tick)...)
	}
	f.Fuzz(func(t *testing.T, schedule []byte) {
		b, c := newTestNode(t, "b", 16, nil), newTestNode(t, "c", 16, nil)
		b.Join("a", 1, 0)
		c.Join("a", 1, 0)
		now, offset := time.Duration(0), 0
		for _, s := range schedule {
			switch {
			case s < 200:
				b.mustReceive(t, [][]byte{packets[(int(s)+offset)%len(packets)]}, now)
			case s < 250:
				offset += int(s) - 190
			case s == 250:
				now += tick
				b.Tick(now)
			case s == 251:
				now += 7 * time.Second
			case s == 252:
				now -= time.Second
			case s == 253:
				b.Leave("a", now)
				if b.Receive(packets[0], now) == nil {
					t.Fatal("a packet of a node that left was merged")
				}
				b.Join("a", 1, now)
			case s == 254: // another incarnation, with counts of its own
				b.Join("a", 2, now)
				if b.Receive(packets[len(packets)-1], now) == nil {
					t.Fatal("a packet of another life was merged")
				}
				b.Join("a", 1, now)
			default:
				b.Top(3, now)
			}
		}
		for pos, n := range b.rule.charged {
			if n > counted[pos] {
				t.Fatalf("client %x was charged %d of %d units", pos, n, counted[pos])
			}
		}
		for i := range packets { // all there is, the last first
			b.mustReceive(t, [][]byte{packets[len(packets)-1-i]}, now)
			c.mustReceive(t, [][]byte{packets[i]}, now)
		}
		got, want := b.mirrors["a"], c.mirrors["a"]
		if got.seq != want.seq || got.tables[0].hidden != want.tables[0].hidden || got.tables[0].grain != want.tables[0].grain {
			t.Errorf("tick %d hides %d of %d, want %d, %d of %d", got.seq, got.tables[0].hidden, got.tables[0].grain,
				want.seq, want.tables[0].hidden, want.tables[0].grain)
		}
		want.tables[0].all(func(i int, w *mirrorSlot) {
			if g := got.tables[0].slot(uint64(i)); g.gen != w.gen || g.count != w.count || g.shed != w.shed || g.pos != w.pos {
				t.Errorf("slot %d: %+v, want %+v", i, g, w)
			}
		})
	})
}
