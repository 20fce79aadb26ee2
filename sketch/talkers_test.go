package sketch

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"
)

func newTalkers(tb testing.TB, slots int) *TopTalkers {
	tb.Helper()
	h, err := NewTopTalkers(slots)
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

// hit is what a request does.
func (h *TopTalkers) hit(d Digest, n uint64, name []byte) {
	if !h.Add(d, n) {
		h.Insert(d, n, name)
	}
}

// talkerModel is a TopTalkers beside a map of exact counts.
type talkerModel struct {
	h       *TopTalkers
	clients []Digest
	epoch   []uint64 // units of each client in this epoch
	ever    []uint64
	taken   []uint64 // ever before the client took its slot
	gen     []uint64 // by slot: the last one told
	last    []Slot   // by slot, as read last
	told    []uint64 // by slot: Count when the epoch began or the slot was taken
	active  []bool   // by slot: hit since the last turn
	inSet   []uint64 // by set: units in this epoch
}

func newTalkerModel(h *TopTalkers, clients []Digest) *talkerModel {
	n, s := len(clients), h.Slots()
	return &talkerModel{
		h: h, clients: clients, epoch: make([]uint64, n), ever: make([]uint64, n), taken: make([]uint64, n),
		gen: make([]uint64, s), last: make([]Slot, s), told: make([]uint64, s), active: make([]bool, s), inSet: make([]uint64, s/talkerWays),
	}
}

// place returns the slot of a client, whether it is live or unnamed, or -1.
func (m *talkerModel) place(c int) (slot int, live bool) {
	x := m.h.index(m.clients[c])
	way := m.h.sets[x].findLocked(m.clients[c].ID)
	if way < 0 {
		return -1, false
	}
	return x*talkerWays + way, m.h.Find(m.clients[c]) >= 0
}

func (m *talkerModel) hit(c int, n uint64) error {
	d := m.clients[c]
	before, lived := m.place(c)
	m.h.hit(d, n, []byte(fmt.Sprint("client ", c)))
	m.epoch[c] += n
	m.ever[c] += n
	m.inSet[m.h.index(d)] += n
	if slot, live := m.place(c); slot >= 0 {
		if before < 0 {
			m.taken[c], m.told[slot] = m.ever[c]-n, 0
		}
		if !live && (before >= 0 || n > 1) {
			return fmt.Errorf("client %d has slot %d without a name though it must be told", c, slot)
		}
		if live && !lived {
			s := readTalker(m.h, slot)
			if s.Gen <= m.gen[slot] {
				return fmt.Errorf("client %d: slot %d has generation %d, the last client's was %d", c, slot, s.Gen, m.gen[slot])
			}
			m.gen[slot] = s.Gen
		}
		m.active[slot] = true
	}
	return m.checkSet(m.h.index(d))
}

// turn begins a new epoch, in which only slots that were hit in the last live.
func (m *talkerModel) turn() error {
	m.h.Turn()
	clear(m.epoch)
	clear(m.inSet)
	for i := range m.told {
		s := readTalker(m.h, i)
		if held := m.h.sets[i/talkerWays].live>>(i%talkerWays)&1 != 0; held != m.active[i] || s.Weight != 0 {
			return fmt.Errorf("slot %d after a turn: held %v, hit in the epoch %v, weight %d", i, held, m.active[i], s.Weight)
		}
		if m.told[i] = 0; s.Live {
			m.told[i] = s.Count
		}
		m.active[i] = false
	}
	if f := m.h.Floor(); f > 1 {
		return fmt.Errorf("floor %d after a turn", f)
	}
	return m.check()
}

func (m *talkerModel) check() error {
	for x := range m.h.sets {
		if err := m.checkSet(x); err != nil {
			return err
		}
	}
	return nil
}

// checkSet checks all that the package comment promises of one set.
func (m *talkerModel) checkSet(x int) error {
	set, floor := &m.h.sets[x], m.h.Floor()
	missed, free := set.missed.Load(), allLive&^set.live
	weights, slots := missed, [talkerWays]Slot{}
	for i := range slots {
		s, last, told := &slots[i], &m.last[x*talkerWays+i], m.gen[x*talkerWays+i]
		m.h.Read(x*talkerWays+i, s)
		if s.Gen < told || s.Live && s.Gen != told {
			return fmt.Errorf("set %d, slot %d: generation %d, told %d", x, i, s.Gen, told)
		}
		if s.Gen < last.Gen || s.Gen == last.Gen && s.Count < last.Count {
			return fmt.Errorf("set %d, slot %d: fell from %+v to %+v", x, i, last, s)
		}
		*last = *s
		weights += s.Weight
	}
	switch {
	case missed > 0 && free != 0:
		return fmt.Errorf("set %d: %d units missed though a slot is free", x, missed)
	case weights != m.inSet[x] || missed > m.inSet[x]/talkerWays, missed > m.inSet[x]/(talkerWays+1) && set.shelter == 0:
		return fmt.Errorf("set %d: weights and missed are %d, missed %d, of %d units", x, weights, missed, m.inSet[x])
	}
	held := 0
	for c, d := range m.clients {
		if m.h.index(d) != x {
			continue
		}
		slot, live := m.place(c)
		if slot >= 0 {
			held++
		}
		if !live && m.epoch[c] > floor || slot < 0 && m.epoch[c] > missed {
			return fmt.Errorf("client %d that is not told has %d units, above the floor of %d or the %d missed", c, m.epoch[c], floor, missed)
		}
		if slot < 0 {
			continue
		}
		if err := m.checkSlot(c, slot, floor, live, &slots[slot%talkerWays]); err != nil {
			return err
		}
	}
	if held != talkerWays-bits.OnesCount8(free) {
		return fmt.Errorf("set %d: %d clients have slots, %d are free", x, held, bits.OnesCount8(free))
	}
	return nil
}

func (m *talkerModel) checkSlot(c, slot int, floor uint64, live bool, s *Slot) error {
	switch name := string(s.Name[:s.NameLen]); {
	case s.Live != live, live && (s.Pos != m.clients[c].Pos || name != fmt.Sprint("client ", c)):
		return fmt.Errorf("client %d: its slot is %+v", c, s)
	case s.Count != m.ever[c]-m.taken[c]:
		return fmt.Errorf("client %d: count %d, want %d, the units since it has the slot", c, s.Count, m.ever[c]-m.taken[c])
	case s.Weight < m.epoch[c]:
		return fmt.Errorf("client %d: weight %d below its %d units", c, s.Weight, m.epoch[c])
	case live && s.Count-m.told[slot]+floor < m.epoch[c]:
		return fmt.Errorf("client %d: told %d and hidden %d of %d units", c, s.Count-m.told[slot], floor, m.epoch[c])
	}
	return nil
}

// talkerStreams are ways to send: uniform, skewed, in turn as fits a table of
// four worst, and in bursts of one client.
var talkerStreams = map[string]func(rng *rand.Rand, clients int) func(i int) (client int, n uint64){
	"uniform": func(rng *rand.Rand, clients int) func(int) (int, uint64) {
		return func(int) (int, uint64) { return rng.IntN(clients), 1 }
	},
	"skewed": func(rng *rand.Rand, clients int) func(int) (int, uint64) {
		z := rand.NewZipf(rng, 1.1, 1, uint64(clients-1))
		return func(int) (int, uint64) { return int(z.Uint64()), 1 }
	},
	"in turn": func(_ *rand.Rand, clients int) func(int) (int, uint64) {
		return func(i int) (int, uint64) { return i % min(clients, talkerWays+1+i/1000%3), 1 }
	},
	"bursts": func(rng *rand.Rand, clients int) func(int) (int, uint64) {
		return func(i int) (int, uint64) { return i / (1 + rng.IntN(50)) % clients, 1 + rng.Uint64N(40) }
	},
	"one dear among many": func(rng *rand.Rand, clients int) func(int) (int, uint64) {
		return func(i int) (int, uint64) {
			if i%7 == 0 {
				return 0, 1 + rng.Uint64N(1<<40)
			}
			return rng.IntN(clients), 1
		}
	},
}

// talkerPlaces are ways to lay 40 clients out.
var talkerPlaces = []struct {
	name   string
	slots  int
	digest func(rng *rand.Rand, i int) Digest
}{
	{"one set", 1, func(rng *rand.Rand, _ int) Digest { return randomDigest(rng) }},
	{"one set of eight", 32, func(_ *rand.Rand, i int) Digest { return Digest{ID: uint64(i)} }}, // ID 0 too
	{"one ID", 256, func(rng *rand.Rand, _ int) Digest { return Digest{Pos: rng.Uint64()} }},
	{"spread", 64, func(rng *rand.Rand, i int) Digest {
		v := rng.Uint64() * uint64(i) // 0 for the first
		return Digest{Pos: v, ID: v}
	}},
}

// TestTalkerAgainstExactCounts: whatever is sent, weights bound units from
// above, counts are exact, and what a set missed bounds who has no slot.
func TestTalkerAgainstExactCounts(t *testing.T) {
	t.Parallel()
	const clients = 40
	steps := 12_000
	if testing.Short() {
		steps = 2000
	}
	for _, place := range talkerPlaces {
		for name, stream := range talkerStreams {
			for seed := range uint64(3) {
				t.Run(fmt.Sprintf("%s, %s, %d", place.name, name, seed), func(t *testing.T) {
					t.Parallel()
					rng := rand.New(rand.NewPCG(seed, uint64(len(place.name)*100+len(name))))
					h := newTalkers(t, place.slots)
					m := newTalkerModel(h, talkerClients(h, rng, clients, place.digest))
					next := stream(rng, len(m.clients))
					for i := range steps {
						if c, n := next(i); c < len(m.clients) {
							if err := m.hit(c, n); err != nil {
								t.Fatalf("hit %d: %v", i, err)
							}
						}
						if rng.IntN(3000) == 0 || i == steps/2 || i == steps/2+1 {
							if err := m.turn(); err != nil {
								t.Fatalf("turn after hit %d: %v", i, err)
							}
						}
					}
				})
			}
		}
	}
}

// talkerClients draws digests of which no two share set and ID, as the digests
// of one rule do.
func talkerClients(h *TopTalkers, rng *rand.Rand, n int, digest func(*rand.Rand, int) Digest) []Digest {
	type place struct {
		set int
		id  uint64
	}
	seen := map[place]bool{}
	var all []Digest
	for i := range n {
		if d := digest(rng, i); !seen[place{h.index(d), d.ID}] {
			seen[place{h.index(d), d.ID}] = true
			all = append(all, d)
		}
	}
	return all
}

// FuzzTalkers lets the fuzzer send: a byte for the client and one for the units.
func FuzzTalkers(f *testing.F) {
	f.Add([]byte("\x00" + "\x00\x01\x01\x01\x02\x01\x03\x01\x04\x01\xff\x00\x05\x09\x05\x01"))
	f.Add([]byte("\x30" + strings.Repeat("\x01\x01\x02\x02\x03\x03\x04\x04\x05\x05\x06\x06", 9) + "\xff\x00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) == 0 {
			return
		}
		h := newTalkers(t, 1+int(in[0]>>4))
		rng := rand.New(rand.NewPCG(1, 1))
		m := newTalkerModel(h, talkerClients(h, rng, 12, func(rng *rand.Rand, i int) Digest {
			return Digest{Pos: rng.Uint64(), ID: uint64(i)}
		}))
		for in = in[1:]; len(in) >= 2; in = in[2:] {
			var err error
			if in[0] == 0xff {
				err = m.turn()
			} else if in[1] > 0 {
				err = m.hit(int(in[0])%len(m.clients), uint64(in[1]))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := m.check(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestTalkersKeepTheHeaviest: four clients that send more than a fifth of what
// reaches their set have slots at the end, whatever the others do.
func TestTalkersKeepTheHeaviest(t *testing.T) {
	t.Parallel()
	h := newTalkers(t, 4)
	rng := rand.New(rand.NewPCG(2, 2))
	for i := range uint64(100_000) {
		d := Digest{ID: 1 + i%4, Pos: 7}
		if i%10 == 0 {
			d = randomDigest(rng) // one-shot
		}
		h.hit(d, 1, nil)
		if i == 50_000 {
			h.Turn()
		}
	}
	for id := range uint64(4) {
		if d := (Digest{ID: id + 1, Pos: 7}); h.Find(d) < 0 {
			t.Errorf("client %d has no slot", id+1)
		} else if s := readTalker(h, h.Find(d)); s.Weight < 10_000 {
			t.Errorf("client %d: weight %d: it lost its slot lately", id+1, s.Weight)
		}
	}
}

// TestTalkerKeepsTheTalkerOverTurns: at the start of an epoch, when nobody has a
// weight, the slot with the lowest count goes first.
func TestTalkerKeepsTheTalkerOverTurns(t *testing.T) {
	t.Parallel()
	h := newTalkers(t, 4)
	for id, n := range []uint64{900, 800, 3, 700} {
		h.hit(Digest{ID: uint64(id + 1)}, n, nil)
	}
	h.Turn()
	h.hit(Digest{ID: 9}, 2, nil)
	if h.Find(Digest{ID: 9}) != 2 || h.Find(Digest{ID: 3}) >= 0 {
		t.Errorf("the newcomer has slot %d, want that of the lightest, 2", h.Find(Digest{ID: 9}))
	}
}

func readTalker(h *TopTalkers, slot int) (s Slot) {
	h.Read(slot, &s)
	return s
}

func TestTalkerSlot(t *testing.T) {
	t.Parallel()
	h := newTalkers(t, 5)
	if h.Slots() != 8 || TalkerSlotBytes != 116 {
		t.Errorf("5 slots: %d slots, %d bytes each", h.Slots(), TalkerSlotBytes)
	}
	a, b := Digest{Pos: 5, ID: 9}, Digest{Pos: 6, ID: 10}
	h.Shed(a, 64) // has no slot
	if h.Add(a, 1) {
		t.Error("Add found a client that was never inserted")
	}
	h.Insert(a, 3, []byte(strings.Repeat("n", 50)))
	h.Insert(a, 4, []byte("not read"))
	h.Shed(a, 64)
	h.Shed(b, 64)
	s := readTalker(h, h.Find(a))
	if s.Gen != 1 || s.Count != 7 || s.Weight != 7 || s.Shed != 64 || s.Pos != 5 || !s.Live || string(s.Name[:s.NameLen]) != strings.Repeat("n", TalkerNameBytes) {
		t.Errorf("slot %+v", s)
	}
	if s := readTalker(h, 7); s != (Slot{}) {
		t.Errorf("a slot that was never used: %+v", s)
	}
	slot := h.Find(a)
	h.Turn()
	h.Turn() // a was silent for an epoch
	if s = readTalker(h, slot); s.Live || s.Gen != 1 || s.Count != 7 || h.Find(a) >= 0 {
		t.Errorf("a freed slot: %+v", s)
	}
	h.Insert(b, 2, nil)
	if s = readTalker(h, slot); !s.Live || s.Gen != 2 || s.Count != 2 || s.Weight != 2 || s.Shed != 0 || s.NameLen != 0 {
		t.Errorf("a slot taken over: %+v", s)
	}
	for _, n := range []int{0, -1, maxTalkerSlots + 1} {
		if _, err := NewTopTalkers(n); err == nil {
			t.Errorf("%d slots: no error", n)
		}
	}
}
