package gossip

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/sync/delta"
)

// labelled puts a cluster's name in front.
func labelled(name string, b []byte) []byte {
	return slices.Concat([]byte{labelType, byte(len(name))}, []byte(name), b)
}

// sealed encrypts a message as a node does.
func sealed(t testing.TB, key, msg []byte, data string) []byte {
	t.Helper()
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	nonce := make([]byte, gcm.NonceSize())
	rand.Read(nonce)
	return gcm.Seal(append([]byte{1}, nonce...), nonce, msg, []byte(data))
}

// packet is what a node would send.
func packet(t testing.TB, msg []byte) []byte {
	t.Helper()
	return labelled("test", sealed(t, gossipKey("test", testSecret), msg, "test"))
}

// counted is a packet of counts.
func counted(t testing.TB, payload []byte) []byte {
	t.Helper()
	return packet(t, append([]byte{userType}, payload...))
}

// sender makes packets of counts as the state of a node does.
type sender struct {
	*delta.State
	rule *fastlimit.Rule
}

func newSender(t testing.TB, cluster, name string, incarnation uint64) *sender {
	t.Helper()
	lim := newLimiter(t, "test", testSecret, 1)
	rule, _ := lim.Rule("r")
	s, err := delta.New(delta.Config{Cluster: cluster, Node: name, Incarnation: incarnation, Rules: []delta.Rule{(*engine.Rule)(rule)}})
	if err != nil {
		t.Fatal(err)
	}
	return &sender{s, rule}
}

// says counts units of a client and returns the packet that reports them.
func (s *sender) says(addr string, units uint64) []byte {
	k := s.rule.AddrKey(netip.MustParseAddr(addr))
	for range units {
		s.rule.Allow(k)
	}
	return slices.Clone(s.Tick(time.Second)[0])
}

// What reaches the socket and is not to be believed is dropped, counted by its
// reason, logged once, and changes nothing else.
func TestReasonsOfMemberlist(t *testing.T) {
	t.Parallel()
	key := gossipKey("test", testSecret)
	good := newSender(t, "test", "stranger", 1).says("192.0.2.66", 99)
	longer := slices.Clone(good)
	longer = append(longer, 0)
	newer := slices.Clone(good)
	newer[bytes.IndexByte(newer, 2)]++ // the version is the first byte that is 2
	for _, tt := range []struct {
		name, network string
		data          []byte
		reason        string
	}{
		{"noise", "udp", []byte{1, 2, 3}, reasonCluster},
		{"nothing", "udp", nil, reasonTruncated},
		{"another cluster", "udp", labelled("other", sealed(t, key, []byte{userType}, "other")), reasonCluster},
		{"half a label", "udp", []byte{labelType, 10, 't'}, reasonTruncated},
		{"a label of nothing", "udp", []byte{labelType, 0, 't'}, reasonMalformed},
		{"a label and no more", "udp", labelled("test", nil), reasonTruncated},
		{"too short to decrypt", "udp", labelled("test", make([]byte, 10)), reasonTruncated},
		{"another key", "udp", labelled("test", sealed(t, gossipKey("test", "another secret of theirs"), []byte{userType}, "test")), reasonKey},
		{"another label in front", "udp", labelled("test", sealed(t, key, []byte{userType}, "other")), reasonKey},
		{"plain text", "udp", labelled("test", append([]byte{userType}, good...)), reasonKey},
		{"one bit flipped", "udp", flip(counted(t, good)), reasonKey},
		{"cut short", "udp", cut(counted(t, good)), reasonKey},
		{"oversized", "udp", append(counted(t, good), make([]byte, maxPacket)...), reasonOversized},
		{"unknown message", "udp", packet(t, []byte{99}), reasonMalformed},
		{"empty message", "udp", packet(t, nil), reasonTruncated},
		{"broken list", "udp", packet(t, []byte{3, 0xff}), reasonMalformed},
		{"noise in a packet of counts", "udp", counted(t, []byte("noise")), delta.Malformed.String()},
		{"half a packet of counts", "udp", counted(t, cut(good)), delta.Malformed.String()},
		{"more than a packet of counts", "udp", counted(t, longer), delta.Malformed.String()},
		{"another version of counts", "udp", counted(t, newer), delta.Version.String()},
		{"counts of another cluster", "udp", counted(t, newSender(t, "other", "b", 1).says("192.0.2.66", 99)), delta.Cluster.String()},
		{"counts of a stranger", "udp", counted(t, good), delta.UnknownNode.String()},
		{"counts of this node itself", "udp", counted(t, newSender(t, "test", "victim", 1).says("192.0.2.66", 99)), delta.Self.String()},
		{"counts of a node that is ignored", "udp", counted(t, newSender(t, "test", "ignored", 1).says("192.0.2.66", 99)), delta.Ignored.String()},
		{"noise", "tcp", []byte{1, 2, 3}, reasonCluster},
		{"another cluster", "tcp", labelled("other", nil), reasonCluster},
		{"half a label", "tcp", []byte{labelType, 10, 't'}, reasonTruncated},
		{"another key", "tcp", listStream(t, gossipKey("test", "another secret of theirs"), []byte{pushPullType}), reasonKey},
		{"plain text", "tcp", labelled("test", []byte{pushPullType, 0}), reasonKey},
		{"half a list", "tcp", cut(listStream(t, key, make([]byte, 100))), reasonTruncated},
		{"plain text and no more", "tcp", labelled("test", []byte{pushPullType}), reasonKey},
		{"broken list", "tcp", listStream(t, key, []byte{pushPullType, 0xc1}), reasonMalformed},
		{"unknown message", "tcp", listStream(t, key, []byte{99}), reasonMalformed},
		{"a list of 100 MB", "tcp", labelled("test", []byte{encryptedType, 6, 0, 0, 0}), reasonStreams},
		{"a list longer than its limit", "tcp", append(labelled("test", []byte{encryptedType, 0, 0x10, 0, 0}), make([]byte, 1<<20)...), reasonStreams},
	} {
		t.Run(tt.network+" "+tt.name, func(t *testing.T) {
			t.Parallel()
			a := node(t, func(c *Config) { c.Node, c.Ignore = "victim", []string{"ignored"} })
			for range 3 {
				sendTo(t, tt.network, a.Addr(), tt.data)
			}
			eventually(t, tt.reason, func() bool { return a.Stats().Rejected[tt.reason] >= 3 })
			checkUnharmed(t, a, tt.reason, 3)
		})
	}
}

func flip(b []byte) []byte { b[len(b)-1] ^= 1; return b }

func cut(b []byte) []byte { return b[:len(b)-len(b)/3] }

// listStream is a stream with a list of members, or what is said to be one.
func listStream(t testing.TB, key, msg []byte) []byte {
	t.Helper()
	n := 1 + 12 + len(msg) + 16
	header := []byte{encryptedType, 0, 0, byte(n >> 8), byte(n)}
	return labelled("test", append(header, sealed(t, key, msg, string(header)+"test")...))
}

func sendTo(t testing.TB, network string, to netip.AddrPort, data []byte) {
	t.Helper()
	conn, err := net.Dial(network, to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = conn.Write(data) // a stream may be cut before all is written
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		_, _ = io.Copy(io.Discard, conn)
	}
}

// checkUnharmed checks that nothing was dropped for another reason, that the
// log has a line at most, and that the node has no peer, no suspect and no
// charge.
func checkUnharmed(t *testing.T, n *testNode, reason string, times uint64) {
	t.Helper()
	s := n.Stats()
	for r, count := range s.Rejected {
		if r != reason && count > 0 || count > times {
			t.Errorf("%d dropped: %s", count, r)
		}
	}
	if lines := n.logs.lines("reason=" + reason); len(lines) > 1 || len(lines) == 0 && !transient[reason] {
		t.Errorf("logged: %q", lines)
	}
	if s.Peers > 0 || s.Delta.ChargedUnits > 0 || s.Delta.Mirrors > 0 || n.suspects("192.0.2.66") {
		t.Errorf("%+v", s)
	}
}

// Streams that nobody reads to the end take a bounded number of goroutines,
// and none of the exchange of counts.
func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	a := node(t, nil)
	b := joining(t, a)
	together(t, a, b)
	for range maxStreams + 5 {
		conn, err := net.Dial("tcp", a.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	eventually(t, "streams to be refused", func() bool { return a.Stats().Rejected[reasonStreams] >= 5 })
	b.flood("192.0.2.7", 30)
	eventually(t, "counts meanwhile", func() bool { return a.Stats().Delta.ChargedUnits == 29 })
	// They end by themselves.
	eventually(t, "streams to be free", func() bool { return len(a.transport.slots) == 0 })
}

// Counts that come faster than they are merged are dropped and counted, not kept
// without end; those that wait are merged in order.
func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	c, err := Config{Name: "test", Secret: testSecret, Bind: "127.0.0.1:0"}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	dropped := map[string]int{}
	tr, err := newTransport(&c, func(reason string, _ net.Addr) { dropped[reason]++ })
	if err != nil {
		t.Fatal(err)
	}
	merged := make(chan byte, maxQueue+9)
	tr.merge = func(counts []byte, _ netip.AddrPort) { merged <- counts[0] }
	buf := make([]byte, maxPacket)
	for i := range maxQueue + 7 { // nobody merges yet
		tr.dispatch(counted(t, []byte{byte(i)}), buf, netip.AddrPort{}, time.Time{})
	}
	if len(dropped) != 1 || dropped[reasonQueue] != 7 {
		t.Errorf("%v, want 7 of queue", dropped)
	}
	tr.goroutines.Go(tr.mergeQueued)
	for i := range maxQueue {
		if got := <-merged; got != byte(i) {
			t.Fatalf("packet %d is merged, want %d", got, byte(i))
		}
	}
	if err := tr.Shutdown(); err != nil {
		t.Error(err)
	}
}
