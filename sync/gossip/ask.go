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

// A node can ask another one a question for the program around both, over a separate
// stream, as twins ask for names. The answer repeats a nonce of the question, so it cannot
// be a replay. A question may be one, so no question alone may make the answering node
// change anything.
//
//	question: nonce (16 bytes), length (1) and name of the asking node, the question
//	answer:   nonce of the question, the answer
const (
	askType   = 0xe3
	toldType  = 0xe4
	askedMost = 2 * streamTimeout // the other node may have to work for the answer
)

// Why [Nodes.Ask] does not ask.
var (
	// errNoPeer says that no node of that name is up.
	errNoPeer = errors.New("it is not up")
	// errIgnored says that the node is in Config.Ignore.
	errIgnored = errors.New("it is in ignore here")
	// errOlder says that a node answers no questions because its version is older.
	errOlder = errors.New("it runs an older version of fastlimit, which does not know this")
)

// Ask returns a peer's answer to a question, from its Config.Answer. It takes a few seconds
// at most.
func (c *Nodes) Ask(ctx context.Context, peer string, question []byte) ([]byte, error) {
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
	var nonce [askNonce]byte
	rand.Read(nonce[:]) // never fails
	message := append(append([]byte{askType}, nonce[:]...), byte(len(self)))
	plain, err := t.call(ctx, at, askedMost, append(append(message, self...), question...))
	if err != nil {
		return nil, err
	}
	answer, ok := bytes.CutPrefix(plain, append([]byte{toldType}, nonce[:]...))
	if !ok {
		return nil, errNoAnswer
	}
	return answer, nil
}

var errNoAnswer = errors.New("it did not answer")

// call sends a message to the node at an address, over a separate stream, and returns what
// comes back, which is not empty.
func (t *transport) call(ctx context.Context, at string, patience time.Duration, message []byte) (plain []byte, err error) {
	s, err := t.dial(at, askTimeout)
	if err != nil {
		return nil, fmt.Errorf("it cannot be reached: %w", err)
	}
	defer func() { _ = s.Close() }()
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	_ = s.SetDeadline(time.Now().Add(patience))
	if _, err := s.Write(append(bytes.Clone(t.gate.header), t.gate.seal(message)...)); err != nil {
		return nil, fmt.Errorf("it did not take the question: %w", err)
	}
	_, plain, reason := t.gate.readFrame(&counter{Reader: s.Conn, transport: t})
	if reason != accepted {
		return nil, errNoAnswer
	}
	return plain, nil
}

// answerTo answers a question. It returns nil if the message is not one that can be answered.
func (m *members) answerTo(message []byte) (answer []byte) {
	const fixed = 1 + askNonce + 1
	if len(message) < fixed || message[0] != askType || len(message) < fixed+int(message[fixed-1]) {
		return nil
	}
	name := fixed + int(message[fixed-1])
	return append(append([]byte{toldType}, message[1:1+askNonce]...), m.answer(string(message[fixed:name]), message[name:])...)
}

// isAsked reports whether this package, and not memberlist, answers a message.
func isAsked(msg []byte) bool { return isQuestion(msg) || len(msg) > 0 && msg[0] == askType }
