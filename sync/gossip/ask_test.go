package gossip

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

// A node asks another one and has its answer, whatever bytes both have; who is gone, older, or takes
// no part is not asked.
func TestAsk(t *testing.T) {
	t.Parallel()
	answering := func(name string) func(*Config) {
		return func(c *Config) {
			c.Node = name
			c.Answer = func(peer string, q []byte) []byte { return append([]byte(name+" to "+peer+": "), q...) }
		}
	}
	a := node(t, answering("a"))
	b := node(t, func(c *Config) {
		answering("b")(c)
		c.Join, c.Ignore = []string{a.Addr().String()}, []string{"old"}
	})
	old := node(t, func(c *Config) {
		c.Node, c.Join = "old", []string{a.Addr().String()}
		c.tune = func(mc *memberlist.Config) { mc.DelegateProtocolMax = knowsBans }
	})
	together(t, a, b, old)
	for _, q := range []string{"", "why?", strings.Repeat("\x00\xff", 10_000)} {
		if got, err := a.Ask(t.Context(), "b", []byte(q)); err != nil || string(got) != "b to a: "+q {
			t.Errorf("%.20q: %.40q %v", q, got, err)
		}
	}
	if got, err := b.Ask(t.Context(), "a", nil); err != nil || string(got) != "a to b: " {
		t.Errorf("%q %v", got, err)
	}
	if _, err := a.Ask(t.Context(), "old", nil); !errors.Is(err, errOlder) {
		t.Errorf("an older node: %v", err)
	}
	if _, err := b.Ask(t.Context(), "old", nil); !errors.Is(err, errIgnored) {
		t.Errorf("an ignored node: %v", err)
	}
	if _, err := a.Ask(t.Context(), "c", nil); !errors.Is(err, errNoPeer) {
		t.Errorf("nobody: %v", err)
	}
	b.transport.silent.Store(true)
	if _, err := a.Ask(t.Context(), "b", nil); err == nil {
		t.Error("one that takes no part answers")
	}
	if _, err := b.Ask(t.Context(), "a", nil); err == nil {
		t.Error("one that takes no part asks")
	}
	b.transport.silent.Store(false)
	b.kill()
	eventually(t, "b is away", func() bool { all := a.Away(); return len(all) == 1 && all[0] == "b" })
}

// Whoever records an answer and gives it to another question is not believed, and strangers'
// questions have no answer.
func TestRecordedAnswer(t *testing.T) {
	t.Parallel()
	a := node(t, func(c *Config) { c.Answer = func(string, []byte) []byte { return []byte("yes") } })
	recorded := make(chan []byte, 2)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() { // passes the first question on, and gives its answer to all
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			select {
			case old := <-recorded:
				_, _ = c.Write(old)
			default:
				to, err := net.Dial("tcp", a.Addr().String())
				if err != nil {
					return
				}
				go func() { _, _ = io.Copy(to, c) }()
				old, _ := io.ReadAll(to)
				recorded <- old
				_, _ = c.Write(old)
			}
			c.Close()
		}
	}()
	if got, err := a.transport.ask(t.Context(), ln.Addr().String(), "x", nil); err != nil || string(got) != "yes" {
		t.Fatalf("%q %v", got, err)
	}
	if got, err := a.transport.ask(t.Context(), ln.Addr().String(), "x", nil); err == nil {
		t.Errorf("an old answer is believed: %q", got)
	}
	stranger := newGate("test", "another secret of enough letters", 3)
	for _, message := range [][]byte{
		append(stranger.header, stranger.seal([]byte{askType})...),
		append(a.transport.gate.header, a.transport.gate.seal([]byte{askType})...),                                         // no nonce
		append(a.transport.gate.header, a.transport.gate.seal(append([]byte{askType}, "0123456789abcdef\xffshort"...))...), // a name beyond the end
	} {
		c, err := net.Dial("tcp", a.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		if _, err := c.Write(message); err != nil {
			t.Error(err)
		}
		if got, err := io.ReadAll(c); len(got) > 0 {
			t.Errorf("an answer of %d bytes, %v", len(got), err)
		}
		c.Close()
	}
}
