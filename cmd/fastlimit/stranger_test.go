package main

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// What is in front of all packets and streams of the cluster "test", and where
// the byte is that tells how the rest is encrypted.
const (
	clusterLabel  = "\xf4\x04test"
	versionOffset = len(clusterLabel)
	encryptedType = 10
	lengthSize    = 4
)

// victim is a node behind a tap, which a peer talks to.
type victim struct {
	*process
	tap  *tap
	addr string // where it is bound
}

var boundTo = regexp.MustCompile(`cluster\.bind=(\S+)`)

func startVictim(t *testing.T, p *tap, join ...string) *victim {
	t.Helper()
	settings := fmt.Sprintf("rules: [{name: per-ip, rate: 20/s, burst: 20}]\n"+
		"cluster: {name: test, node: victim, bind: \"127.0.0.1:0\", advertise: %q, join: %q, secret: correct-horse-battery, max_nodes: 3}\n", p.addr(), join)
	v := &victim{process: serve(t, "-c", writeFile(t, "victim.yaml", settings)), tap: p}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.addr = boundTo.FindStringSubmatch(v.log.String())[1]
	p.forwardTo(v.addr)
	return v
}

// unharmed tells that the victim serves, after what was sent to it has had its
// time: it answers a peer, whose packets come behind.
func (v *victim) unharmed(t *testing.T) {
	t.Helper()
	received := func() float64 { return v.metric(t, `fastlimit_sync_packets_total{direction="received"}`) }
	before := received()
	redistest.Eventually(t, "packets of the peer", func() bool { return received() > before+2 })
	if resp, _ := get(t, http.DefaultClient, "http://"+v.admin+"/readyz"); resp.StatusCode != http.StatusOK {
		t.Errorf("readyz %d", resp.StatusCode)
	}
}

func (v *victim) refused(t *testing.T, reason string) float64 {
	t.Helper()
	return v.metric(t, fmt.Sprintf("fastlimit_sync_rejected_total{reason=%q}", reason))
}

// say sends a stream and returns what comes back until the node hangs up.
func (v *victim) say(t *testing.T, data []byte) (answer []byte) {
	t.Helper()
	conn, err := net.Dial("tcp", v.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(hang))
	_, _ = conn.Write(data) // it may hang up before it has read all
	_ = conn.(*net.TCPConn).CloseWrite()
	answer, _ = io.ReadAll(conn) // a reset is an answer too
	return answer
}

// A stranger has captured packets of a node, and sends them again with the byte
// changed that tells how they are encrypted, which nothing authenticates: to
// the node, and to its next life. Nothing of it gets to what decrypts.
func TestStrangerChangesTheVersionOfPackets(t *testing.T) {
	t.Parallel()
	p := newTap(t)
	v := startVictim(t, p)
	peer := serve(t, "-c", writeFile(t, "peer.yaml", "rules: [{name: per-ip, rate: 20/s, burst: 20}]\n"+
		clusterSettings("peer", "127.0.0.1:0", []string{p.addr()})))
	v.waitPeers(t, 1)
	peer.waitPeers(t, 1)
	redistest.Eventually(t, "acknowledgements to be captured", func() bool { // the small ones
		packets, _ := p.seen()
		return slices.ContainsFunc(packets, func(b []byte) bool { return len(b) < versionOffset+29+32 })
	})
	captured, _ := p.seen()
	if captured[0][versionOffset] != 1 {
		t.Fatalf("the version is not where the test looks for it: %x", captured[0])
	}
	attack := func() {
		conn, err := net.Dial("udp", v.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, b := range captured {
			for _, version := range []byte{0, 2, 0xff} {
				b = slices.Clone(b)
				b[versionOffset] = version
				_, _ = conn.Write(b) // it fails once the node is gone
			}
		}
	}
	attack()
	redistest.Eventually(t, "the packets to be refused", func() bool { return v.refused(t, "key") >= float64(len(captured)) })
	v.unharmed(t)

	_ = v.cmd.Process.Kill()
	v.wait()
	v = startVictim(t, p, peer.clusterAddr(t))
	v.waitPeers(t, 1)
	attack()
	redistest.Eventually(t, "the packets to be refused", func() bool { return v.refused(t, "key") >= float64(len(captured)) })
	v.unharmed(t)
}

// A stranger sends a stream that nobody can decrypt. What comes back would be
// encrypted, and could be sent again with another version: so nothing does.
func TestStrangerGetsNoAnswer(t *testing.T) {
	t.Parallel()
	p := newTap(t)
	v := startVictim(t, p)
	serve(t, "-c", writeFile(t, "peer.yaml", "rules: [{name: per-ip, rate: 20/s, burst: 20}]\n"+
		clusterSettings("peer", "127.0.0.1:0", []string{p.addr()})))
	v.waitPeers(t, 1)
	noise := make([]byte, 64)
	rand.Read(noise)
	noise[0] = 1
	_, streams := p.seen()
	changed := slices.Clone(streams[0])
	changed[versionOffset+1+lengthSize] = 0
	short := append([]byte(clusterLabel), encryptedType, 0, 0, 0, 5, 1, 2, 3, 4, 5)
	for name, data := range map[string][]byte{
		"noise":               slices.Concat([]byte(clusterLabel), streamHead(len(noise)), noise),
		"too short":           short,
		"plain text":          append([]byte(clusterLabel), 6, 0x80),
		"a captured list":     changed,
		"a length of 4 GB":    append([]byte(clusterLabel), encryptedType, 0xff, 0xff, 0xff, 0xff),
		"a length of nothing": append([]byte(clusterLabel), encryptedType, 0, 0, 0, 0),
		"no label":            []byte("GET / HTTP/1.1\r\n\r\n"),
		"half a label":        []byte(clusterLabel[:3]),
	} {
		answer := v.say(t, data)
		if len(answer) > 1+lengthSize {
			t.Errorf("%s: %d bytes for a stranger", name, len(answer))
			answer[1+lengthSize] = 0 // as the attack goes
			v.say(t, append([]byte(clusterLabel), answer...))
		}
	}
	if n := v.refused(t, "key"); n < 2 {
		t.Errorf("%v refused", n)
	}
	v.unharmed(t)
}

// Whoever has the secret cannot stop a node with an empty message either.
func TestEmptyMessages(t *testing.T) {
	t.Parallel()
	p := newTap(t)
	v := startVictim(t, p)
	serve(t, "-c", writeFile(t, "peer.yaml", "rules: [{name: per-ip, rate: 20/s, burst: 20}]\n"+
		clusterSettings("peer", "127.0.0.1:0", []string{p.addr()})))
	v.waitPeers(t, 1)
	head := streamHead(29)
	stream := slices.Concat([]byte(clusterLabel), head, encrypt(t, nil, string(head)+"test"))
	for range 3 {
		v.say(t, stream)
	}
	conn, err := net.Dial("udp", v.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(append([]byte(clusterLabel), encrypt(t, nil, "test")...)); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "four to be refused", func() bool { return v.refused(t, "truncated") >= 4 })
	v.unharmed(t)
}

// streamHead is in front of an encrypted message on a stream.
func streamHead(length int) []byte {
	return []byte{encryptedType, byte(length >> 24), byte(length >> 16), byte(length >> 8), byte(length)}
}

// encrypt seals a message with the key of the cluster.
func encrypt(t *testing.T, msg []byte, data string) []byte {
	t.Helper()
	key, err := hkdf.Key(sha256.New, []byte("correct-horse-battery"), []byte("test"), "fastlimit gossip AES-256-GCM v1", 32)
	if err != nil {
		t.Fatal(err)
	}
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
