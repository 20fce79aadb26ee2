package gossip

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A node asks another one something, for the program around both, over a stream of its own, as
// twins ask for names. The answer repeats a nonce of the question, so that it is new. A question
// may be a replay: whoever answers must change nothing because of it alone.
//
//	question: nonce (16 bytes), length (1) and name of who asks, the question
//	answer:   nonce of the question, the answer
const (
	askType   = 0xe3
	toldType  = 0xe4
	askedMost = 2 * streamTimeout // an answer may take the other node some work
)

// Why [Cluster.Ask] asks nobody.
var (
	// errNoPeer says that no node of that name is up.
	errNoPeer = errors.New("it is not up")
	// errIgnored says that the node is in Config.Ignore.
	errIgnored = errors.New("it is in ignore here")
	// errOlder says that a node answers no questions since its version is an older one.
	errOlder = errors.New("it runs an older version of fastlimit, which does not know this")
)

// Ask returns what a peer answers to a question: by its Config.Answer. It takes a few seconds at
// most.
func (c *Cluster) Ask(ctx context.Context, peer string, question []byte) ([]byte, error) {
	for _, p := range c.members.list() {
		switch {
		case p.Name != peer:
		case slices.Contains(c.config.Ignore, peer):
			return nil, errIgnored
		case p.DMax < knowsQuestions:
			return nil, errOlder
		case c.transport.silent.Load():
			return nil, errSilent
		default:
			return c.transport.ask(ctx, p.Address(), c.config.Node, question)
		}
	}
	return nil, errNoPeer
}

func (t *transport) ask(ctx context.Context, at, self string, question []byte) ([]byte, error) {
	s, err := t.dial(at, askTimeout)
	if err != nil {
		return nil, fmt.Errorf("it cannot be reached: %w", err)
	}
	defer func() { _ = s.Close() }()
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	_ = s.SetDeadline(time.Now().Add(askedMost))
	var nonce [askNonce]byte
	rand.Read(nonce[:]) // never fails
	message := append(append([]byte{askType}, nonce[:]...), byte(len(self)))
	message = append(append(message, self...), question...)
	if _, err := s.Write(append(bytes.Clone(t.gate.header), t.gate.seal(message)...)); err != nil {
		return nil, fmt.Errorf("it did not take the question: %w", err)
	}
	_, plain, reason := t.gate.readFrame(&counter{Reader: s.Conn, transport: t})
	answer, ok := bytes.CutPrefix(plain, append([]byte{toldType}, nonce[:]...))
	if reason != accepted || !ok {
		return nil, errors.New("it did not answer")
	}
	return answer, nil
}

// told answers a question; nil if it is none that can be answered.
func (m *members) told(message []byte) (answer []byte) {
	const fixed = 1 + askNonce + 1
	if len(message) < fixed || message[0] != askType || len(message) < fixed+int(message[fixed-1]) {
		return nil
	}
	name := fixed + int(message[fixed-1])
	return append(append([]byte{toldType}, message[1:1+askNonce]...), m.answer(string(message[fixed:name]), message[name:])...)
}

// isAsked reports whether the node itself answers a message, and not memberlist.
func isAsked(msg []byte) bool { return isQuestion(msg) || len(msg) > 0 && msg[0] == askType }
