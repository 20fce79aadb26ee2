package gossip

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"time"
)

const (
	// askEvery is the interval at which a node that may have this one's name is
	// asked for its name.
	askEvery = time.Second
	// askTimeout bounds one question.
	askTimeout = time.Second
	// maxMisses is how many consecutive questions must go unanswered before the
	// name counts as free.
	maxMisses = 3
	// maxClaims bounds the addresses that are asked.
	maxClaims = 8
)

// incarnationOf returns an incarnation that orders nodes by their start, and within
// a millisecond at random. Clock skew may change the order, but all nodes agree on
// it.
func incarnationOf(start time.Time) uint64 {
	const low = 22
	var b [4]byte
	rand.Read(b[:])                                                                             // never fails
	return uint64(start.UnixMilli())<<low | uint64(binary.LittleEndian.Uint32(b[:]))&(1<<low-1) // after 1970
}

// twins detects another node with this one's name. What memberlist hears of such a
// node may be outdated or replayed, so twins asks the node itself, with a fresh
// nonce. Of two nodes the one that started later yields: both compare the same two
// incarnations. Safe for concurrent use.
type twins struct {
	self        string
	incarnation uint64
	ask         func(ctx context.Context, at netip.AddrPort) (name string, incarnation uint64, err error)
	changed     func(yields bool) // called by run on every change
	log         *slog.Logger

	nudge chan struct{}

	mu     sync.Mutex // guards all below; never held across a question
	claims map[netip.AddrPort]*claim
	older  netip.AddrPort // the node that this one yields to; invalid: none
}

// claim is an address at which there is said to be a node of this name.
type claim struct {
	older  bool // a node of this name, started before this one, has answered
	misses int  // consecutive questions without an answer, below maxMisses
}

func newTwins(self string, incarnation uint64, log *slog.Logger) *twins {
	return &twins{
		self: self, incarnation: incarnation, log: log, changed: func(bool) {},
		nudge: make(chan struct{}, 1), claims: map[netip.AddrPort]*claim{},
	}
}

// claimed records that a node of this name is said to be at an address. It does not
// block: memberlist calls it under its node lock.
func (w *twins) claimed(at netip.AddrPort) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.claims[at] != nil || len(w.claims) >= maxClaims {
		return
	}
	w.claims[at] = &claim{}
	wake(w.nudge)
}

// run asks claimed addresses until ctx ends. It sleeps while there are none.
func (w *twins) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.nudge:
		}
		for w.askAll(ctx) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(askEvery):
			}
		}
	}
}

// askAll asks all claimed addresses concurrently, and reports whether claims are left.
func (w *twins) askAll(ctx context.Context) (more bool) {
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
		if c.misses++; c.misses >= maxMisses {
			delete(w.claims, at)
		}
	case name != w.self || incarnation == w.incarnation: // another name, or this very node
		delete(w.claims, at)
	default:
		*c = claim{older: incarnation < w.incarnation}
	}
}

// decide determines whether this node yields and to whom, and reports whether claims
// are left. It sticks to the older node it has already reported.
func (w *twins) decide() (more bool) {
	w.mu.Lock()
	before := w.older
	w.older = netip.AddrPort{}
	for at, c := range w.claims {
		if c.older && (!w.older.IsValid() || at == before || w.older != before && at.Compare(w.older) < 0) {
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

// yieldsTo returns the node of this name that started before this one, if any.
func (w *twins) yieldsTo() (other netip.AddrPort, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.older, w.older.IsValid()
}

// Questions and answers, after the type byte:
//
//	question: nonce (16 bytes), incarnation (8), length (1) and text of the
//	          address at which the asking node can be asked, its name
//	answer:   nonce of the question, incarnation, 0, name
const (
	questionType = 0xe1
	answerType   = 0xe2
	askNonce     = 16
)

func isQuestion(msg []byte) bool { return len(msg) > 0 && msg[0] == questionType }

// nodeInfo is what a node says about itself in a question or an answer.
type nodeInfo struct {
	nonce       [askNonce]byte
	incarnation uint64
	at          string
	name        string
}

func (c *nodeInfo) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(append(b, c.nonce[:]...), c.incarnation)
	b = append(append(b, byte(len(c.at))), c.at...)
	return append(b, c.name...)
}

var errNodeInfo = errors.New("it does not say who it is")

// readNodeInfo parses what follows the type byte.
func readNodeInfo(b []byte) (c nodeInfo, err error) {
	const fixed = askNonce + 8 + 1
	if len(b) < fixed || len(b) < fixed+int(b[fixed-1]) {
		return nodeInfo{}, errNodeInfo
	}
	copy(c.nonce[:], b)
	c.incarnation = binary.BigEndian.Uint64(b[askNonce:])
	end := fixed + int(b[fixed-1])
	c.at, c.name = string(b[fixed:end]), string(b[end:])
	return c, nil
}

// answer returns this node's answer to a question. If the asking node has the same
// name, this one asks it in turn.
func (w *twins) answer(question []byte) (answer []byte) {
	c, err := readNodeInfo(question[1:])
	if err != nil {
		return nil
	}
	if at, err := netip.ParseAddrPort(c.at); err == nil && c.name == w.self && c.incarnation != w.incarnation {
		w.claimed(at)
	}
	own := nodeInfo{nonce: c.nonce, incarnation: w.incarnation, name: w.self}
	return own.append([]byte{answerType})
}

// asking returns a function that asks the node at an address for its name. The
// answer must repeat the nonce, so a captured answer does not pass.
func (t *transport) asking(self string, incarnation uint64, from netip.AddrPort) func(context.Context, netip.AddrPort) (string, uint64, error) {
	return func(ctx context.Context, at netip.AddrPort) (string, uint64, error) {
		own := nodeInfo{incarnation: incarnation, at: from.String(), name: self}
		rand.Read(own.nonce[:]) // never fails
		plain, err := t.call(ctx, at.String(), askTimeout, own.append([]byte{questionType}))
		if err != nil {
			return "", 0, err
		}
		if plain[0] != answerType {
			return "", 0, errNodeInfo
		}
		c, err := readNodeInfo(plain[1:])
		if err != nil || c.nonce != own.nonce {
			return "", 0, errNodeInfo
		}
		return c.name, c.incarnation, nil
	}
}
