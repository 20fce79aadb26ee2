package delta

import (
	"bytes"
	"testing"
	"time"
)

// FuzzReceive: whatever arrives, nothing panics, a packet that is refused
// changed nothing, one that is merged twice charges once, and the mirror stays
// within its bound.
func FuzzReceive(f *testing.F) {
	f.Add(packet(nil))
	f.Add(packet(nil, oneRule(64, good)))
	f.Add(packet(nil, oneRule(64, good, entry{slot: 63, gen: 1 << 60, count: maxCount, shed: maxCount, pos: 1}), oneRule(1, entry{gen: 1, count: 1})))
	f.Add(packet(func(h *header) { h.node = bytes.Repeat([]byte("n"), MaxNodeName) }, oneRule(64, good)))
	a := newTestNode(f, "a", 64, small)
	for i := range uint64(40) {
		a.rule.hit(i, 1+i*i)
	}
	for _, p := range a.tick(0) {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		b := newTestNode(t, "b", 64, nil)
		b.Join("a", 1, 0)
		kept := bytes.Clone(p)
		err := b.Receive(p, time.Second)
		charged := b.rule.total()
		st := b.Stats()
		if !bytes.Equal(p, kept) {
			t.Error("the packet was changed")
		}
		if err != nil && (charged != 0 || st.MergedSlots != 0 || st.Mirrors != 0) {
			t.Errorf("%v, but %d units and %d slots were merged", err, charged, st.MergedSlots)
		}
		if again := b.Receive(p, time.Second); (again == nil) != (err == nil) {
			t.Errorf("first %v, then %v", err, again)
		}
		if total := b.rule.total(); total != charged {
			t.Errorf("charged %d, and %d more by a repetition", charged, total-charged)
		}
		if most := int64(64*112 + 2*8); st.MirrorBytes > most {
			t.Errorf("mirror of %d bytes, at most %d", st.MirrorBytes, most)
		}
		b.Tick(2 * time.Second)
		b.Top(3, 2*time.Second)
	})
}

// FuzzRoundTrip: what is written is read.
func FuzzRoundTrip(f *testing.F) {
	f.Add(uint64(0), uint64(1), uint64(1), uint64(0), uint64(0), []byte("x"), uint8(3))
	f.Add(uint64(maxSlots-1), ^uint64(0), uint64(maxCount), uint64(maxCount), ^uint64(0), bytes.Repeat([]byte("n"), maxName), uint8(200))
	f.Fuzz(func(t *testing.T, slot, gen, count, shed, pos uint64, name []byte, n uint8) {
		want := entry{
			slot: slot % maxSlots, gen: max(gen, 1), count: 1 + count%maxCount, shed: shed % (maxCount + 1),
			pos: pos, name: name[:min(len(name), maxName)],
		}
		h := header{cluster: pos, incarnation: gen, seq: count, node: []byte("node")}
		sec := section{identity: shed, slots: maxSlots, hidden: count % (maxCount + 1), grain: 1 + gen%maxGrain}
		w := newWriter(&Config{PacketSize: minPacketSize, MaxBytes: 64 * minPacketSize})
		w.begin(&h)
		for i := range int(n) {
			w.write(i%3, &sec, &want)
		}
		read := 0
		for _, p := range w.end() {
			if len(p) > minPacketSize {
				t.Fatalf("a packet of %d bytes", len(p))
			}
			read += readBack(t, p, &h, &sec, &want)
		}
		if read != int(n) {
			t.Errorf("%d entries written, %d read", n, read)
		}
	})
}

func readBack(t *testing.T, p []byte, h *header, sec *section, want *entry) (read int) {
	t.Helper()
	r := reader{b: p[len(magic)+1:]}
	got := r.header()
	if got.cluster != h.cluster || got.incarnation != h.incarnation || got.seq != h.seq || !bytes.Equal(got.node, h.node) {
		t.Fatalf("header %+v, want %+v", got, h)
	}
	if !wellFormed(r.b) {
		t.Fatalf("not well formed: %x", p)
	}
	for r.more() {
		s := r.section()
		if s.identity != sec.identity || s.slots != sec.slots || s.hidden != sec.hidden || s.grain != sec.grain {
			t.Fatalf("section %+v, want %+v", s, sec)
		}
		for range s.entries {
			e := r.entry(&s)
			if e.slot != want.slot || e.gen != want.gen || e.count != want.count || e.shed != want.shed || e.pos != want.pos || !bytes.Equal(e.name, want.name) {
				t.Fatalf("entry %+v, want %+v", e, want)
			}
			read++
		}
	}
	if r.bad {
		t.Fatal("bad")
	}
	return read
}
