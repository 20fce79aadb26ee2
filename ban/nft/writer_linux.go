package nft

import (
	"errors"
	"net"

	"github.com/fastlimit/fastlimit/ban/feed"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Writer is a table of nftables. Its methods must not be called concurrently.
type Writer struct {
	config  Config
	ownless bool // for tests: treats the kernel as one without owners

	socket *socket      // nil unless it is open
	place  net.Listener // instead of an owner: see reserve
	state0 tableState   // of the table when it was made

	table   *nftables.Table
	ports   *nftables.Set
	hooks   []*nftables.Chain
	banned  *nftables.Chain // a rule for each set of bans
	drops   *nftables.Chain // a rule for each of Listens
	watched []set           // the sets of bans, in the order of their rules, after the one of ports
	known   map[kind]string // the sets of bans, by name
}

var _ feed.Writer = (*Writer)(nil)

// New returns a writer that has not made anything yet.
func New(c Config) (*Writer, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Writer{config: c.withDefaults()}, nil
}

// Open implements [feed.Writer]. Its errors say what to grant, or to change.
func (w *Writer) Open() error {
	_ = w.Close() // replaces what is left
	err := w.open()
	if err != nil {
		_ = w.Close() // err is the cause
	}
	return err
}

func (w *Writer) open() error {
	s, err := dial()
	if err != nil {
		return w.setupFailed(err)
	}
	w.socket, w.known = s, make(map[kind]string)
	if err := w.make(); err != nil {
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EEXIST) {
			if other := w.ownedByOther(); other != nil {
				return other
			}
		}
		return w.setupFailed(err)
	}
	return nil
}

func (w *Writer) make() (err error) {
	owned := false
	if !w.ownless {
		if owned, err = w.own(); err != nil {
			return err
		}
	}
	if !owned {
		if err := w.reserve(); err != nil {
			return err
		}
	}
	if err := w.build(owned); err != nil {
		return err
	}
	w.state0, err = w.state()
	return err
}

// reserve makes sure, if tables have no owners, that no other process takes the table for
// its own: the two would replace each other's forever. An abstract Unix socket is scoped to
// the network namespace, as a table is, and is gone when its process is.
func (w *Writer) reserve() error {
	place, err := net.Listen("unix", "@fastlimit-nft-inet-"+w.config.Table)
	if errors.Is(err, unix.EADDRINUSE) {
		return w.taken("")
	}
	w.place = place
	return err
}

// Counters implements [feed.Writer].
func (w *Writer) Counters() (packets, bytes uint64, err error) {
	if w.socket == nil {
		return 0, 0, w.lost("is not open")
	}
	if err := w.intact(); err != nil {
		return 0, 0, err
	}
	rules, err := w.rules(w.drops, len(w.config.Listens))
	if err != nil {
		return 0, 0, err
	}
	for _, r := range rules {
		for _, e := range r.Exprs {
			if c, ok := e.(*expr.Counter); ok {
				packets += c.Packets
				bytes += c.Bytes
			}
		}
	}
	return packets, bytes, nil
}

// intact checks that everything but elements is there. It asks for one element in each set.
func (w *Writer) intact() error {
	switch state, err := w.state(); {
	case errors.Is(err, unix.ENOENT):
		return w.lost("is gone")
	case err != nil:
		return w.classified("table", err)
	case state != w.state0:
		return w.lost("is not the one that was made")
	}
	for _, hook := range w.hooks {
		if _, err := w.rules(hook, 1); err != nil {
			return err
		}
	}
	if _, err := w.rules(w.banned, len(w.known)); err != nil {
		return err
	}
	for _, s := range w.watched {
		if err := w.sings(s); err != nil {
			return err
		}
	}
	return nil
}

// rules returns those of a chain, of which there must be n.
func (w *Writer) rules(of *nftables.Chain, n int) ([]*nftables.Rule, error) {
	all, err := w.socket.rules(of)
	if err != nil {
		return nil, w.classified("rules", err)
	}
	if len(all) != n {
		return nil, w.lost("lacks rules")
	}
	return all, nil
}

// sings checks that the canary of a set is in it: a set that was flushed has lost it too.
func (w *Writer) sings(s set) error {
	b, list := w.listOf(s.name, 48)
	b = element(b, s.canary, 0)
	nest(b, list)
	_, err := w.socket.ask(unix.NFT_MSG_GETSETELEM, b)
	return w.classified("the canary of "+s.name, err)
}

// Close implements [feed.Writer]: it deletes the table.
func (w *Writer) Close() error {
	if w.socket == nil {
		return nil
	}
	err := error(nil)
	if w.place != nil { // otherwise the table goes with the socket
		if w.table != nil {
			err = w.remove()
		}
		w.place.Close()
	}
	err = errors.Join(err, w.socket.close())
	w.socket, w.place, w.table = nil, nil, nil
	return err
}

// remove deletes a table that has no owner. It is no error if the table is gone already.
func (w *Writer) remove() error {
	err := w.socket.transact(message(unix.NFT_MSG_DELTABLE, 0, text(nil, unix.NFTA_TABLE_NAME, w.config.Table)))
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return w.classified("deleting it", err)
}
