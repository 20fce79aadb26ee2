package delta

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
)

// The golden packet is the format: a change of it needs another version.
func TestGoldenPacket(t *testing.T) {
	t.Parallel()
	c := Config{PacketSize: defaultPacketSize, MaxBytes: DefaultMaxBytes}
	w := newWriter(&c)
	w.begin(&header{cluster: 0x0102030405060708, incarnation: 0x1112131415161718, seq: 300, node: []byte("n1")})
	sec := section{identity: 0x2122232425262728, slots: 64, hidden: 5, grain: 256}
	w.write(0, &sec, &entry{slot: 3, gen: 1, count: 200, pos: 0x3132333435363738, name: []byte("c")})
	w.write(0, &sec, &entry{slot: 63, gen: 2, count: 1, shed: 64, pos: 7})
	want := "fld\x02" + "\x08\x07\x06\x05\x04\x03\x02\x01" + "\x18\x17\x16\x15\x14\x13\x12\x11" + "\xac\x02" + "\x02n1" +
		"\x28\x27\x26\x25\x24\x23\x22\x21" + "\x40" + "\x05" + "\x80\x02" + "\x82\x00" +
		"\x03" + "\x01" + "\xc8\x01" + "\x00" + "\x38\x37\x36\x35\x34\x33\x32\x31" + "\x01c" +
		"\x3f" + "\x02" + "\x01" + "\x40" + "\x07\x00\x00\x00\x00\x00\x00\x00" + "\x00"
	if got := w.end(); len(got) != 1 || string(got[0]) != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if clusterHash("test") != 0xfee2218ab21682b1 {
		t.Errorf("hash of a cluster's name: %#x", clusterHash("test"))
	}
}

// packet builds a packet around sections.
func packet(change func(*header), sections ...[]byte) []byte {
	h := header{cluster: clusterHash("test"), incarnation: 1, seq: 1, node: []byte("a")}
	if change != nil {
		change(&h)
	}
	b := appendHeader(nil, &h)
	for _, s := range sections {
		b = append(b, s...)
	}
	return b
}

// oneRule is a section of "per-ip".
func oneRule(slots uint64, entries ...entry) []byte {
	b := appendSection(nil, &section{identity: clusterHash("per-ip"), slots: slots})
	setEntries(b[len(b)-2:], len(entries))
	for i := range entries {
		b = appendEntry(b, &entries[i])
	}
	return b
}

var good = entry{slot: 1, gen: 1, count: 7, pos: 9, name: []byte("x")}

// Whatever is wrong with a packet has its reason, and nothing of it is merged.
func TestRejected(t *testing.T) {
	t.Parallel()
	with := func(change func(e *entry)) []byte {
		e := good
		change(&e)
		return packet(nil, oneRule(64, good), oneRule(64, e))
	}
	whole := packet(nil, oneRule(64, good))
	for name, tt := range map[string]struct {
		packet []byte
		want   Reason
	}{
		"empty":                  {nil, Malformed},
		"other magic":            {[]byte("GET / HTTP/1.1\r\n\r\n"), Malformed},
		"other version":          {append([]byte("fld\x01"), whole[4:]...), Version},
		"version and nothing":    {[]byte("fld\x01"), Version},
		"magic and nothing":      {[]byte("fld"), Malformed},
		"too long":               {append(whole, make([]byte, maxPacket)...), Oversized},
		"other cluster":          {packet(func(h *header) { h.cluster++ }, oneRule(64, good)), Cluster},
		"trailing byte":          {append(bytes.Clone(whole), 0), Malformed},
		"cut":                    {whole[:len(whole)-1], Malformed},
		"no node":                {packet(func(h *header) { h.node = nil }), Malformed},
		"name of a node":         {packet(func(h *header) { h.node = make([]byte, MaxNodeName+1) }), Malformed},
		"from itself":            {packet(func(h *header) { h.node = []byte("b") }, oneRule(64, good)), Self},
		"from itself, reborn":    {packet(func(h *header) { h.node, h.incarnation = []byte("b"), 5 }), Self},
		"from nobody":            {packet(func(h *header) { h.node = []byte("z") }, oneRule(64, good)), UnknownNode},
		"from another life":      {packet(func(h *header) { h.incarnation = 2 }, oneRule(64, good)), StaleIncarnation},
		"from an ignored member": {packet(func(h *header) { h.node = []byte("liar") }, oneRule(64, good)), Ignored},
		"slot beyond":            {with(func(e *entry) { e.slot = 64 }), Malformed},
		"generation 0":           {with(func(e *entry) { e.gen = 0 }), Malformed},
		"count 0":                {with(func(e *entry) { e.count = 0 }), Malformed},
		"hostile count":          {with(func(e *entry) { e.count = maxCount + 1 }), Malformed},
		"hostile shed":           {with(func(e *entry) { e.shed = math.MaxUint64 }), Malformed},
		"long name":              {with(func(e *entry) { e.name = make([]byte, maxName+1) }), Malformed},
		"no slots":               {packet(nil, oneRule(64, good), oneRule(0, good)), Malformed},
		"too many slots":         {packet(nil, oneRule(64, good), oneRule(maxSlots+1, good)), Malformed},
		"no entries":             {packet(nil, oneRule(64, good), oneRule(64)), Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newTestNode(t, "b", 64, func(c *Config) { c.Ignore = []string{"liar"} })
			b.Join("a", 1, 0)
			b.Join("liar", 1, 0)
			rejects(t, b, tt.packet, tt.want)
		})
	}
}

func rejects(t *testing.T, b *testNode, packet []byte, want Reason) {
	t.Helper()
	if got := reasonOf(b.Receive(packet, tick)); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	st := b.Stats()
	if st.Rejected[want] != 1 || st.MergedSlots != 0 || st.Mirrors != 0 || b.rule.total() != 0 {
		t.Errorf("stats %+v, charged %d", st, b.rule.total())
	}
}

// A packet that is cut anywhere, or has a byte changed, is refused or is
// another packet; it is never half merged.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	whole := packet(nil, oneRule(64, good, entry{slot: 2, gen: 3, count: 300, shed: 1, pos: 4}), oneRule(200, good))
	ends := map[int]bool{len(packet(nil)): true, len(packet(nil)) + len(oneRule(64, good, entry{slot: 2, gen: 3, count: 300, shed: 1, pos: 4})): true}
	for n := range whole {
		b := newTestNode(t, "b", 64, nil)
		b.Join("a", 1, 0)
		if err := b.Receive(whole[:n], tick); (err == nil) != ends[n] {
			t.Errorf("cut after %d of %d bytes: %v", n, len(whole), err)
		} else if err != nil && b.rule.total() != 0 {
			t.Errorf("cut after %d bytes: %d units merged", n, b.rule.total())
		}
	}
}

// Parts that this node cannot use are left out and counted; the rest counts.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	b := newTestNode(t, "b", 8, nil)
	b.Join("a", 1, 0)
	other := oneRule(64, good)
	binary.LittleEndian.PutUint64(other, 12345)
	beyond := good
	beyond.slot = 8
	if err := b.Receive(packet(nil, other, oneRule(64, beyond, good)), tick); err != nil {
		t.Fatal(err)
	}
	st := b.Stats()
	if st.Rejected[UnknownRule] != 1 || st.Rejected[Slots] != 1 || st.MergedSlots != 1 || b.rule.total() != 7 {
		t.Errorf("stats %+v, charged %d", st, b.rule.total())
	}
}

func TestReasons(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for r := range NumReasons {
		if r.String() == "" || r.String() == "unknown" || seen[r.String()] {
			t.Errorf("reason %d is %q", r, r)
		}
		seen[r.String()] = true
	}
	if s := Reason(200).String(); s != "unknown" {
		t.Errorf("reason 200 is %q", s)
	}
}
