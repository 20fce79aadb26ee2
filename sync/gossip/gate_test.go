package gossip

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/memberlist"
)

// passes reports whether a packet may pass.
func (g *gate) passes(b, buf []byte) bool {
	_, reason := g.packet(b, buf)
	return reason == accepted
}

func testGate() *gate { return newGate("test", testSecret, 32) }

// encoded is a message of memberlist.
func encoded(t testing.TB, kind byte, values ...any) []byte {
	t.Helper()
	b := bytes.NewBuffer([]byte{kind})
	for _, v := range values {
		if err := codec.NewEncoder(b, &codec.MsgpackHandle{}).Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// memberlist's own messages, as it encodes them.
type (
	ackMsg  struct{ SeqNo uint32 }
	listMsg struct {
		Nodes, UserStateLen int
		Join                bool
	}
	nodeMsg struct {
		Name        string
		Addr        []byte
		Port        uint16
		Meta        []byte
		Incarnation uint32
		State       memberlist.NodeStateType
		Vsn         []uint8
	}
	aliveMsg struct {
		Incarnation uint32
		Node        string
		Addr        []byte
		Port        uint16
		Meta        []byte
		Vsn         []uint8
	}
)

// aliveOf is an alive message of a node of these versions.
func aliveOf(versions ...uint8) aliveMsg {
	return aliveMsg{Incarnation: 1, Node: "a", Addr: []byte{127, 0, 0, 1}, Port: 7946, Meta: appendMeta(nil, 1), Vsn: versions}
}

// checked is a message with a checksum in front.
func checked(msg []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{checkedType}, crc32.ChecksumIEEE(msg)), msg...)
}

func compound(parts ...[]byte) []byte {
	b := []byte{compoundType, byte(len(parts))}
	for _, p := range parts {
		b = binary.BigEndian.AppendUint16(b, uint16(len(p)))
	}
	return append(b, slices.Concat(parts...)...)
}

// No byte passes the gate that somebody without the secret has written or
// changed, wherever it is.
func TestGateHoldsForEveryByte(t *testing.T) {
	t.Parallel()
	g, buf := testGate(), make([]byte, maxPacket)
	good := packet(t, encoded(t, ackType, ackMsg{7}))
	if _, reason := g.packet(good, buf); reason != accepted {
		t.Fatalf("a good packet: %s", reason)
	}
	stream := listStream(t, gossipKey("test", testSecret), encoded(t, pushPullType, listMsg{}))
	if _, _, reason := g.readOpening(bytes.NewReader(stream)); reason != accepted {
		t.Fatalf("a good stream: %s", reason)
	}
	for i := range good {
		for bit := range 8 {
			b := slices.Clone(good)
			b[i] ^= 1 << bit
			if g.passes(b, buf) {
				t.Errorf("packet: bit %d of byte %d passes", bit, i)
			}
		}
		if g.passes(good[:i], buf) {
			t.Errorf("packet: %d bytes of %d pass", i, len(good))
		}
	}
	if g.passes(append(slices.Clone(good), 0), buf) {
		t.Error("packet: one byte more passes")
	}
	for i := range stream {
		for bit := range 8 {
			b := append(slices.Clone(stream), make([]byte, 1<<9)...) // so that a greater length finds its bytes
			b[i] ^= 1 << bit
			if _, _, reason := g.readOpening(bytes.NewReader(b)); reason == accepted {
				t.Errorf("stream: bit %d of byte %d passes", bit, i)
			}
		}
		if _, _, reason := g.readOpening(bytes.NewReader(stream[:i])); reason == accepted {
			t.Errorf("stream: %d bytes of %d pass", i, len(stream))
		}
	}
	// What passes is what came, and no more than that.
	rest := bytes.NewReader(append(slices.Clone(stream), "rest"...))
	frame, _, _ := g.readOpening(rest)
	if left, _ := io.ReadAll(rest); !bytes.Equal(frame, stream[len(g.header):]) || string(left) != "rest" {
		t.Errorf("%x of %x, left %q", frame, stream, left)
	}
}

// The other versions of memberlist's encryption are no way through, whatever
// they hold.
func TestGateKnowsOneVersion(t *testing.T) {
	t.Parallel()
	g, buf := testGate(), make([]byte, maxPacket)
	for version := range 256 {
		b := packet(t, encoded(t, ackType, ackMsg{7}))
		b[len(g.header)] = byte(version)
		s := listStream(t, gossipKey("test", testSecret), encoded(t, pushPullType, listMsg{}))
		s[len(g.header)+frameHead] = byte(version)
		_, _, reason := g.readOpening(bytes.NewReader(s))
		if _, got := g.packet(b, buf); (got == accepted) != (version == sealVersion) || (reason == accepted) != (version == sealVersion) {
			t.Errorf("version %d: packet %q, stream %q", version, got, reason)
		}
	}
}

// A stranger's stream takes the memory of what has arrived, not of what it
// says will.
func TestGateTakesMemoryAsBytesArrive(t *testing.T) {
	t.Parallel()
	g := newGate("test", testSecret, 1000)
	head := append(bytes.Clone(g.header), encryptedType)
	head = binary.BigEndian.AppendUint32(head, uint32(g.most))
	r := &greedy{Reader: bytes.NewReader(append(head, make([]byte, 1000)...))}
	if _, _, reason := g.readOpening(r); reason != reasonTruncated {
		t.Errorf("1000 bytes of %d: %q", g.most, reason)
	}
	if r.most > 4<<10 {
		t.Errorf("room for %d bytes when 1000 have come", r.most)
	}
	binary.BigEndian.PutUint32(head[len(head)-4:], uint32(g.most+1))
	if _, _, reason := g.readOpening(bytes.NewReader(head)); reason != reasonStreams {
		t.Errorf("a length above the limit: %q", reason)
	}
}

// greedy notes how many bytes a reader has room for.
type greedy struct {
	io.Reader
	most int
}

func (g *greedy) Read(b []byte) (int, error) {
	g.most = max(g.most, len(b))
	return g.Reader.Read(b)
}

// Members may be hostile, too: what no node sends does not get to memberlist.
func TestGateOfMessages(t *testing.T) {
	t.Parallel()
	ack := encoded(t, ackType, ackMsg{7})
	node := nodeMsg{Name: "a", Addr: []byte{127, 0, 0, 1}, Port: 7946, Meta: appendMeta(nil, 1), Vsn: []uint8{1, 5, 2, 0, 0, 0}}
	other := node
	other.Vsn = []uint8{3, 5, 5, 0, 0, 0}
	for name, tt := range map[string]struct {
		check func([]byte) string
		msg   []byte
		want  string
	}{
		"ack":                       {checkPacket, ack, accepted},
		"ack with a checksum":       {checkPacket, checked(ack), accepted},
		"another checksum":          {checkPacket, slices.Concat([]byte{checkedType, 1, 2, 3, 4}, ack), reasonMalformed},
		"a text for a number":       {checkPacket, encoded(t, ackType, struct{ SeqNo string }{"7"}), reasonMalformed},
		"a number for a name":       {checkPacket, encoded(t, suspectType, struct{ Node, From int }{7, 8}), reasonMalformed},
		"a list for a name":         {checkPacket, encoded(t, deadType, struct{ Node []string }{[]string{"a"}}), reasonMalformed},
		"a name for an address":     {checkPacket, encoded(t, pingType, struct{ SourcePort string }{"b"}), reasonMalformed},
		"a port of five digits":     {checkPacket, encoded(t, indirectType, struct{ Port int }{99999}), reasonMalformed},
		"a number for a nack":       {checkPacket, encoded(t, nackType, 7), reasonMalformed},
		"alive":                     {checkPacket, encoded(t, aliveType, aliveOf(1, 5, 2, 0, 0, 0)), accepted},
		"alive, no port":            {checkPacket, encoded(t, aliveType, struct{ Port string }{"x"}), reasonMalformed},
		"alive, no versions":        {checkPacket, encoded(t, aliveType, aliveOf()), reasonVersion},
		"alive, three versions":     {checkPacket, encoded(t, aliveType, aliveOf(1, 5, 2)), reasonVersion},
		"alive, versions of 0":      {checkPacket, encoded(t, aliveType, aliveOf(0, 0, 0, 0, 0, 0)), reasonVersion},
		"alive, a later version":    {checkPacket, encoded(t, aliveType, aliveOf(3, 5, 5, 0, 0, 0)), reasonVersion},
		"alive, another current":    {checkPacket, encoded(t, aliveType, aliveOf(1, 5, 5, 0, 0, 0)), reasonVersion},
		"alive, an earlier one":     {checkPacket, encoded(t, aliveType, aliveOf(1, 1, 1, 0, 0, 0)), reasonVersion},
		"alive, of the delegate":    {checkPacket, encoded(t, aliveType, aliveOf(1, 5, 2, 1, 0, 0)), reasonVersion},
		"alive, in compound":        {checkPacket, compound(ack, encoded(t, aliveType, aliveOf(3, 5, 5, 0, 0, 0))), reasonVersion},
		"compound":                  {checkPacket, compound(ack, ack), accepted},
		"compound of nothing":       {checkPacket, compound(), accepted},
		"counts":                    {checkPacket, []byte{userType, 1}, accepted},
		"nothing":                   {checkPacket, nil, reasonMalformed},
		"half a compound":           {checkPacket, []byte{compoundType}, reasonMalformed},
		"compound without lengths":  {checkPacket, []byte{compoundType, 2, 0, 1}, reasonMalformed},
		"compound cut short":        {checkPacket, compound(ack, ack)[:12], reasonMalformed},
		"compound of compounds":     {checkPacket, compound(compound(ack)), reasonMalformed},
		"compound of an empty part": {checkPacket, compound(ack, nil), reasonMalformed},
		"compressed":                {checkPacket, []byte{9, 0x80}, reasonMalformed},
		"compressed in compound":    {checkPacket, compound([]byte{9, 0x80}), reasonMalformed},
		"encrypted again":           {checkPacket, []byte{encryptedType, 0x80}, reasonMalformed},
		"a string of 4 GB":          {checkPacket, []byte{aliveType, 0x81, 0xdb, 0xff, 0xff, 0xff, 0xff}, reasonMalformed},
		"nested without end":        {checkPacket, append([]byte{aliveType}, bytes.Repeat([]byte{0x91}, 1300)...), reasonMalformed},
		"more behind it":            {checkPacket, append(bytes.Clone(ack), 0xc0), reasonMalformed},
		"a list in a packet":        {checkPacket, encoded(t, pushPullType, listMsg{}), reasonMalformed},

		"list":                       {inRequests.check, encoded(t, pushPullType, listMsg{Nodes: 1}, node), accepted},
		"list of another version":    {inRequests.check, encoded(t, pushPullType, listMsg{Nodes: 1}, other), reasonVersion},
		"list of a text":             {inRequests.check, encoded(t, pushPullType, listMsg{Nodes: 1}, struct{ Port string }{strings.Repeat("x", 99)}), reasonMalformed},
		"empty list":                 {inRequests.check, encoded(t, pushPullType, listMsg{}), accepted},
		"list of more than it says":  {inRequests.check, encoded(t, pushPullType, listMsg{}, node), reasonMalformed},
		"list of less than it says":  {inRequests.check, encoded(t, pushPullType, listMsg{Nodes: 2}, node), reasonMalformed},
		"list of a million":          {inRequests.check, encoded(t, pushPullType, listMsg{Nodes: 1 << 20}), reasonMalformed},
		"list of less than nothing":  {inRequests.check, encoded(t, pushPullType, listMsg{Nodes: -1}), reasonMalformed},
		"list of nils":               {inRequests.check, append(encoded(t, pushPullType, listMsg{Nodes: 100}), bytes.Repeat([]byte{0xc0}, 100)...), reasonMalformed},
		"state of 20 MB":             {inRequests.check, encoded(t, pushPullType, listMsg{UserStateLen: 20 << 20}), reasonMalformed},
		"TCP ping":                   {inRequests.check, encoded(t, pingType, ackMsg{7}), accepted},
		"message of 20 MB":           {inRequests.check, encoded(t, userType, struct{ UserMsgLen int }{20 << 20}), reasonMalformed},
		"ack as a request":           {inRequests.check, ack, reasonMalformed},
		"compressed on a stream":     {inRequests.check, []byte{9, 0x80}, reasonMalformed},
		"empty request":              {inRequests.check, nil, reasonMalformed},
		"ack as a reply":             {inReplies.check, ack, accepted},
		"list as a reply":            {inReplies.check, encoded(t, pushPullType, listMsg{Nodes: 1}, node), accepted},
		"error as a reply":           {inReplies.check, encoded(t, errorType, struct{ Error string }{"no"}), accepted},
		"compressed as a reply":      {inReplies.check, []byte{9, 0x80}, reasonMalformed},
		"ping as a reply":            {inReplies.check, encoded(t, pingType, ackMsg{7}), reasonMalformed},
		"empty reply":                {inReplies.check, nil, reasonMalformed},
		"list of a million, a reply": {inReplies.check, encoded(t, pushPullType, listMsg{Nodes: 1 << 20}), reasonMalformed},
	} {
		if got := tt.check(tt.msg); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func FuzzGate(f *testing.F) {
	f.Add(packet(f, encoded(f, ackType, ackMsg{7})))
	f.Add(listStream(f, gossipKey("test", testSecret), encoded(f, pushPullType, listMsg{})))
	f.Add(compound(encoded(f, ackType, ackMsg{7}), []byte{userType}))
	g, buf := testGate(), make([]byte, maxPacket)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, check := range []func([]byte) string{checkPacket, inRequests.check, inReplies.check} {
			check(b)
		}
		if len(b) <= maxPacket && g.passes(b, buf) && !bytes.HasPrefix(b, g.header) {
			t.Error("a packet without the label passes")
		}
		_, _, _ = g.readOpening(bytes.NewReader(b))
	})
}

// BenchmarkGate is what a packet of counts costs before memberlist sees it, and
// what one of a stranger does.
func BenchmarkGate(b *testing.B) {
	g, buf := testGate(), make([]byte, maxPacket)
	full := packet(b, append([]byte{userType}, make([]byte, 1350)...))
	for name, p := range map[string][]byte{
		"counts":   full,
		"ack":      packet(b, encoded(b, ackType, ackMsg{7})),
		"stranger": flip(bytes.Clone(full)),
		"noise":    []byte("GET / HTTP/1.1"),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				g.packet(p, buf)
			}
		})
	}
}
