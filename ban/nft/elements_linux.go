package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit/ban/feed"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Elements are encoded here, as the library cannot ask for an error if one exists
// (NLM_F_EXCL), and makes 8 allocations for each.

// kind is what the prefixes of one set have in common.
type kind struct {
	v6   bool
	bits int
}

func kindOf(p netip.Prefix) kind { return kind{p.Addr().Is6(), p.Bits()} }

// name returns the name of the set.
func (k kind) name() string {
	if k.v6 {
		return fmt.Sprintf("v6_%d", k.bits)
	}
	return fmt.Sprintf("v4_%d", k.bits)
}

// task is a change to the elements of one set.
type task struct {
	set     string
	changes []feed.Change
}

// sorted sorts a batch by operation and set. It leaves out removals from a set that does
// not exist.
func (w *Writer) sorted(changes []feed.Change) (remove, add []task) {
	sort := func(remove bool) (tasks []task) {
		of := make(map[kind]int)
		for _, c := range changes {
			k := kindOf(c.Prefix)
			if (c.For == 0) != remove || w.known[k] == "" {
				continue
			}
			at, ok := of[k]
			if !ok {
				at = len(tasks)
				of[k] = at
				tasks = append(tasks, task{set: w.known[k]})
			}
			tasks[at].changes = append(tasks[at].changes, c)
		}
		return tasks
	}
	return sort(true), sort(false)
}

// Apply implements [feed.Writer]. A transaction fails if an element that it adds exists, or
// one that it removes does not, which is rare. Apply then first adds each element, which
// does nothing to one that exists, so that it can be deleted in any case. This also
// replaces the kernel's time of an element: before Linux 6.12 it stays the same when an
// element is added again.
func (w *Writer) Apply(changes []feed.Change) error {
	if w.socket == nil {
		return w.lost("is not open")
	}
	if err := w.need(changes); err != nil {
		return err
	}
	remove, add := w.sorted(changes)
	if len(remove)+len(add) == 0 {
		return nil
	}
	err := w.socket.transact(w.plainly(remove, add)...)
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOENT) {
		err = w.socket.transact(w.surely(remove, add)...)
		if errors.Is(err, unix.ENFILE) && len(changes) == 1 && changes[0].For == 0 {
			return nil // it is not in its set, which is full
		}
	}
	return w.classified("bans", err)
}

func (w *Writer) plainly(remove, add []task) (messages []netlink.Message) {
	for _, t := range remove {
		messages = append(messages, w.elements(unix.NFT_MSG_DELSETELEM, 0, t))
	}
	for _, t := range add {
		messages = append(messages, w.elements(unix.NFT_MSG_NEWSETELEM, netlink.Create|netlink.Excl, t))
	}
	return messages
}

func (w *Writer) surely(remove, add []task) (messages []netlink.Message) {
	for _, t := range append(remove, add...) {
		messages = append(messages, w.elements(unix.NFT_MSG_NEWSETELEM, netlink.Create, t), w.elements(unix.NFT_MSG_DELSETELEM, 0, t))
	}
	for _, t := range add {
		messages = append(messages, w.elements(unix.NFT_MSG_NEWSETELEM, netlink.Create, t))
	}
	return messages
}

// elements returns a message about elements of one set.
func (w *Writer) elements(kind int, flags netlink.HeaderFlags, t task) netlink.Message {
	b, list := w.listOf(t.set, 48*len(t.changes))
	for _, c := range t.changes {
		if a := c.Prefix.Addr(); a.Is4() {
			k := a.As4()
			b = element(b, k[:], c.For)
		} else {
			k := a.As16()
			b = element(b, k[:], c.For)
		}
	}
	nest(b, list)
	return message(kind, flags, b)
}

// listOf begins a list of elements.
func (w *Writer) listOf(set string, size int) (b []byte, list int) {
	b = make([]byte, 0, len(w.config.Table)+len(set)+32+size)
	b = text(b, unix.NFTA_SET_ELEM_LIST_TABLE, w.config.Table)
	b = text(b, unix.NFTA_SET_ELEM_LIST_SET, set)
	return begin(b, unix.NFTA_SET_ELEM_LIST_ELEMENTS)
}

// shortest is the shortest life of an element: the kernel counts it in ticks of up to 10
// ms, and with 0 ticks an element lives forever.
const shortest = 20 * time.Millisecond

// element appends an element, which lives forever if life is 0.
func element(b, key []byte, life time.Duration) []byte {
	b, outer := begin(b, unix.NFTA_LIST_ELEM)
	b, nested := begin(b, unix.NFTA_SET_ELEM_KEY)
	b, value := begin(b, unix.NFTA_DATA_VALUE)
	b = padded(append(b, key...), value)
	nest(b, nested)
	if life > 0 {
		ms := (max(life, shortest) + time.Millisecond - 1) / time.Millisecond
		b, value = begin(b, unix.NFTA_SET_ELEM_TIMEOUT)
		b = padded(binary.BigEndian.AppendUint64(b, uint64(ms)), value)
	}
	nest(b, outer)
	return b
}

// text appends an attribute that is a string.
func text(b []byte, kind uint16, s string) []byte {
	b, at := begin(b, kind)
	return padded(append(append(b, s...), 0), at)
}

// begin appends the head of an attribute, whose length is set when it ends.
func begin(b []byte, kind uint16) (longer []byte, at int) {
	return binary.NativeEndian.AppendUint16(append(b, 0, 0), kind), len(b)
}

// padded ends an attribute without nested ones: it sets its length, and aligns the next
// one.
func padded(b []byte, at int) []byte {
	binary.NativeEndian.PutUint16(b[at:], uint16(len(b)-at)) // 48 bytes for each of MaxBatch elements at most
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// nest ends an attribute with nested ones.
func nest(b []byte, at int) {
	padded(b, at)
	kind := binary.NativeEndian.Uint16(b[at+2:])
	binary.NativeEndian.PutUint16(b[at+2:], kind|unix.NLA_F_NESTED)
}
