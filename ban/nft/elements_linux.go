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

// sort is what is done to the elements of one set.
type sort struct {
	set    string
	remove bool
}

// work is the changes of a batch by set, removals first.
type work struct {
	sorts []sort
	of    map[sort][]feed.Change
}

func sorted(changes []feed.Change) work {
	w := work{of: make(map[sort][]feed.Change)}
	for _, remove := range []bool{true, false} {
		for _, c := range changes {
			if (c.For == 0) != remove {
				continue
			}
			k := sort{setName(c.Prefix), remove}
			if w.of[k] == nil {
				w.sorts = append(w.sorts, k)
			}
			w.of[k] = append(w.of[k], c)
		}
	}
	return w
}

// setName names the set of all prefixes of a length.
func setName(p netip.Prefix) string {
	if p.Addr().Is4() {
		return fmt.Sprintf("v4_%d", p.Bits())
	}
	return fmt.Sprintf("v6_%d", p.Bits())
}

// Apply implements [feed.Writer]. A transaction fails if one of its elements is already
// there or is not, which is rare. Then each is made first, which does nothing to one that exists, so that it can be
// deleted in any case. So the kernel's time of an element is replaced too: before Linux
// 6.12 it stays as it is when an element is added again.
func (w *Writer) Apply(changes []feed.Change) error {
	if w.socket == nil {
		return w.lost("is not open")
	}
	if err := w.need(changes); err != nil {
		return err
	}
	todo := sorted(changes)
	err := w.socket.transact(w.plainly(todo)...)
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOENT) {
		err = w.socket.transact(w.surely(todo)...)
		if errors.Is(err, unix.ENFILE) && len(changes) == 1 && changes[0].For == 0 {
			return nil // it is not in its set, which is full
		}
	}
	return w.classified("bans", err)
}

func (w *Writer) plainly(todo work) (messages []netlink.Message) {
	for _, k := range todo.sorts {
		if k.remove {
			messages = append(messages, w.elements(unix.NFT_MSG_DELSETELEM, 0, k.set, todo.of[k]))
		} else {
			messages = append(messages, w.elements(unix.NFT_MSG_NEWSETELEM, netlink.Create|netlink.Excl, k.set, todo.of[k]))
		}
	}
	return messages
}

func (w *Writer) surely(todo work) (messages []netlink.Message) {
	for _, k := range todo.sorts {
		add := w.elements(unix.NFT_MSG_NEWSETELEM, netlink.Create, k.set, todo.of[k])
		messages = append(messages, add, w.elements(unix.NFT_MSG_DELSETELEM, 0, k.set, todo.of[k]))
		if !k.remove {
			messages = append(messages, add)
		}
	}
	return messages
}

// elements is a message about elements of one set.
func (w *Writer) elements(kind int, flags netlink.HeaderFlags, set string, changes []feed.Change) netlink.Message {
	b, list := w.listOf(set, 48*len(changes))
	for _, c := range changes {
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

// shortest is the shortest life of an element: the kernel counts it in ticks of up to 10 ms, and
// for 0 ticks an element lives forever.
const shortest = 20 * time.Millisecond

// element appends one, which lives forever if life is 0.
func element(b, key []byte, life time.Duration) []byte {
	b, outer := begin(b, unix.NFTA_LIST_ELEM)
	b, nested := begin(b, unix.NFTA_SET_ELEM_KEY)
	b, value := begin(b, unix.NFTA_DATA_VALUE)
	b = padded(append(b, key...), value)
	nest(b, nested)
	if life > 0 {
		ms := (max(life, shortest) + time.Millisecond - 1) / time.Millisecond
		b, value = begin(b, unix.NFTA_SET_ELEM_TIMEOUT)
		b = padded(binary.BigEndian.AppendUint64(b, uint64(ms)), value) //nolint:gosec // positive
	}
	nest(b, outer)
	return b
}

// text appends an attribute that is a string.
func text(b []byte, kind uint16, s string) []byte {
	b, at := begin(b, kind)
	return padded(append(append(b, s...), 0), at)
}

// begin appends the head of an attribute, whose length follows at its end.
func begin(b []byte, kind uint16) (longer []byte, at int) {
	return binary.NativeEndian.AppendUint16(append(b, 0, 0), kind), len(b)
}

// padded ends an attribute that holds no others: it sets its length, and aligns the next one.
func padded(b []byte, at int) []byte {
	binary.NativeEndian.PutUint16(b[at:], uint16(len(b)-at)) //nolint:gosec // 48 bytes for each of MaxBatch elements at most
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// nest ends an attribute that holds others.
func nest(b []byte, at int) {
	padded(b, at)
	kind := binary.NativeEndian.Uint16(b[at+2:])
	binary.NativeEndian.PutUint16(b[at+2:], kind|unix.NLA_F_NESTED)
}
