package gossip

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"sync"
	"time"
)

const (
	// askEvery is the interval in which a node that may have this one's name is
	// asked for it.
	askEvery = time.Second
	// askTimeout is for one question.
	askTimeout = time.Second
	// askTimes is how often in a row nobody with this name may answer before
	// the name counts as free.
	askTimes = 3
	// maxClaims bounds the addresses that are asked.
	maxClaims = 8
)

// incarnationOf orders the lives of all nodes by their start, those of one
// millisecond by chance. Clocks that differ pick another order, and it is still
// the same one for everybody.
func incarnationOf(start time.Time) uint64 {
	const low = 22
	var b [4]byte
	rand.Read(b[:])                                                                             // never fails
	return uint64(start.UnixMilli())<<low | uint64(binary.LittleEndian.Uint32(b[:]))&(1<<low-1) //nolint:gosec // after 1970
}

// twins looks out for another node of this one's name. What memberlist hears
// of such a node may be old, or sent again by somebody who captured it: so the
// node is asked, with a number that nobody has used before. Of two nodes the
// one that started later yields: both compare the same two incarnations. Safe
// for concurrent use.
type twins struct {
	self        string
	incarnation uint64
	ask         func(ctx context.Context, at netip.AddrPort) (name string, incarnation uint64, err error)
	changed     func(yields bool) // by run, when it becomes so
	log         *slog.Logger

	nudge chan struct{}

	mu     sync.Mutex // guards all below; never held across a question
	claims map[netip.AddrPort]*claim
	older  netip.AddrPort // whom this node yields to; invalid: nobody
}

// claim is an address at which a node of this name is said to be.
type claim struct {
	confirmed bool // it answered, less than askTimes questions ago
	older     bool // than this node
	misses    int  // questions in a row that nobody answered
}

func newTwins(self string, incarnation uint64, log *slog.Logger) *twins {
	return &twins{
		self: self, incarnation: incarnation, log: log, changed: func(bool) {},
		nudge: make(chan struct{}, 1), claims: map[netip.AddrPort]*claim{},
	}
}

// claimed notes that a node of this name is said to be at an address. It does
// not block.
func (w *twins) claimed(at netip.AddrPort) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.claims[at] != nil || len(w.claims) >= maxClaims {
		return
	}
	w.claims[at] = &claim{}
	select {
	case w.nudge <- struct{}{}:
	default:
	}
}

// run asks until ctx ends.
func (w *twins) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.nudge:
		}
		for w.round(ctx) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(askEvery):
			}
		}
	}
}

// round asks all nodes that are said to have this name, and reports whether there
// is one left to ask.
func (w *twins) round(ctx context.Context) (more bool) {
	w.mu.Lock()
	var all []netip.AddrPort
	for at := range w.claims {
		all = append(all, at)
	}
	w.mu.Unlock()
	var asking sync.WaitGroup
	for _, at := range all {
		asking.Go(func() {
			name, incarnation, err := w.ask(ctx, at)
			w.answered(at, name, incarnation, err)
		})
	}
	asking.Wait()
	if ctx.Err() != nil {
		return false
	}
	return w.decide()
}

func (w *twins) answered(at netip.AddrPort, name string, incarnation uint64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.claims[at]
	switch {
	case err != nil:
		if c.misses++; c.misses >= askTimes {
			delete(w.claims, at)
		}
	case name != w.self || incarnation == w.incarnation: // this node itself, at the address of its former life
		delete(w.claims, at)
	default:
		*c = claim{confirmed: true, older: incarnation < w.incarnation}
	}
}

// decide determines who yields, and reports whether there is a node left to ask.
func (w *twins) decide() (more bool) {
	w.mu.Lock()
	before := w.older
	w.older = netip.AddrPort{}
	for at, c := range w.claims {
		if c.confirmed && c.older && (!w.older.IsValid() || at == before || w.older != before && at.Compare(w.older) < 0) {
			w.older = at
		}
	}
	older, more := w.older, len(w.claims) > 0
	w.mu.Unlock()
	switch {
	case older.IsValid() && !before.IsValid():
		w.log.Error("cluster: another node has this one's name and started before it: this one is not ready, and takes no part, until it has a name of its own: set cluster.node",
			slog.String("node", w.self), slog.String("other", older.String()))
		w.changed(true)
	case before.IsValid() && !older.IsValid():
		w.log.Info("cluster: the other node of this name is gone: this one is ready", slog.String("node", w.self))
		w.changed(false)
	}
	return more
}

// yieldsTo is the node of this name that started before this one, if there is
// one.
func (w *twins) yieldsTo() (other netip.AddrPort, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.older, w.older.IsValid()
}

// question and answer, after their kind:
//
//	question: nonce (16 bytes), incarnation (8), length (1) and text of the
//	          address at which the asking node can be asked, its name
//	answer:   nonce, incarnation, 0, name
const (
	questionType = 0xe1
	answerType   = 0xe2
	askNonce     = 16
)

func isQuestion(msg []byte) bool { return len(msg) > 0 && msg[0] == questionType }

// card is what a node says of itself.
type card struct {
	nonce       [askNonce]byte
	incarnation uint64
	at          string
	name        string
}

func (c *card) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(append(b, c.nonce[:]...), c.incarnation)
	b = append(append(b, byte(len(c.at))), c.at...)
	return append(b, c.name...)
}

var errCard = errors.New("it does not say who it is")

// readCard reads what follows the kind.
func readCard(b []byte) (c card, err error) {
	const fixed = askNonce + 8 + 1
	if len(b) < fixed || len(b) < fixed+int(b[fixed-1]) {
		return card{}, errCard
	}
	copy(c.nonce[:], b)
	c.incarnation = binary.BigEndian.Uint64(b[askNonce:])
	end := fixed + int(b[fixed-1])
	c.at, c.name = string(b[fixed:end]), string(b[end:])
	return c, nil
}

// answer says who this node is. The asking node has its name: then this one
// asks, too.
func (w *twins) answer(question []byte) (answer []byte) {
	c, err := readCard(question[1:])
	if err != nil {
		return nil
	}
	if at, err := netip.ParseAddrPort(c.at); err == nil && c.name == w.self && c.incarnation != w.incarnation {
		w.claimed(at)
	}
	own := card{nonce: c.nonce, incarnation: w.incarnation, name: w.self}
	return own.append([]byte{answerType})
}

// asking returns a function that asks who is at an address.
func (t *transport) asking(self string, incarnation uint64, from netip.AddrPort) func(context.Context, netip.AddrPort) (string, uint64, error) {
	return func(ctx context.Context, at netip.AddrPort) (string, uint64, error) {
		s, err := t.dial(at.String(), askTimeout)
		if err != nil {
			return "", 0, err
		}
		defer func() { _ = s.Close() }()
		defer context.AfterFunc(ctx, func() { _ = s.Close() })()
		_ = s.SetDeadline(time.Now().Add(askTimeout))
		own := card{incarnation: incarnation, at: from.String(), name: self}
		rand.Read(own.nonce[:]) // never fails
		if _, err := s.Write(append(bytes.Clone(t.gate.header), t.gate.seal(own.append([]byte{questionType}))...)); err != nil {
			return "", 0, err
		}
		_, plain, reason := t.gate.readFrame(&counter{Reader: io.Reader(s.Conn), of: t})
		if reason != quiet || plain[0] != answerType {
			return "", 0, fmt.Errorf("%v: %w (%s)", at, errCard, reason)
		}
		c, err := readCard(plain[1:])
		if err != nil || c.nonce != own.nonce {
			return "", 0, errCard
		}
		return c.name, c.incarnation, nil
	}
}
