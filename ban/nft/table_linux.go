package nft

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/fastlimit/fastlimit/ban/feed"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// What is not in golang.org/x/sys.
const (
	tableOwned  = 0x2 // NFT_TABLE_F_OWNER
	tableHandle = 4   // NFTA_TABLE_HANDLE
	tableOwner  = 7   // NFTA_TABLE_OWNER
)

// tableState is what the kernel says of a table.
type tableState struct {
	handle       uint64 // no other table of this kernel has ever had it
	flags, owner uint32
}

// state asks for the table.
func (w *Writer) state() (t tableState, err error) {
	replies, err := w.socket.ask(unix.NFT_MSG_GETTABLE, text(nil, unix.NFTA_TABLE_NAME, w.config.Table))
	if err != nil {
		return t, err
	}
	if len(replies) != 1 || len(replies[0].Data) < 4 {
		return t, errSilent
	}
	d, err := netlink.NewAttributeDecoder(replies[0].Data[4:])
	if err != nil {
		return t, err
	}
	d.ByteOrder = binary.BigEndian
	for d.Next() {
		switch d.Type() {
		case unix.NFTA_TABLE_FLAGS:
			t.flags = d.Uint32()
		case tableHandle:
			t.handle = d.Uint64()
		case tableOwner:
			t.owner = d.Uint32()
		}
	}
	return t, d.Err()
}

// own makes a table that is this socket's, in place of one that is nobody's. It is false if
// the kernel does not know of owners.
func (w *Writer) own() (bool, error) {
	name := text(nil, unix.NFTA_TABLE_NAME, w.config.Table)
	b, flags := begin(slices.Clone(name), unix.NFTA_TABLE_FLAGS)
	b = padded(binary.BigEndian.AppendUint32(b, tableOwned), flags)
	add := message(unix.NFT_MSG_NEWTABLE, netlink.Create|netlink.Excl, b)
	err := w.socket.transact(add)
	if errors.Is(err, unix.EEXIST) {
		t, err := w.state()
		switch {
		case err == nil && t.flags&tableOwned != 0:
			return false, w.taken(fmt.Sprintf(" (netlink port %d, which mostly is its process id)", t.owner))
		case err != nil && !errors.Is(err, unix.ENOENT):
			return false, w.setupFailed(err)
		}
		err = w.socket.transact(message(unix.NFT_MSG_DELTABLE, 0, name), add)
		if err != nil {
			return false, w.setupFailed(err)
		}
		return true, nil
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		return false, nil
	}
	if err != nil {
		return false, w.setupFailed(err)
	}
	return true, nil
}

// build makes all that is in the table, and unless it is owned the table itself, in place
// of one that was left behind, in one transaction.
func (w *Writer) build(owned bool) error {
	c := w.socket.library
	w.table = &nftables.Table{Family: nftables.TableFamilyINet, Name: w.config.Table}
	if !owned {
		c.AddTable(w.table)
		c.DelTable(w.table)
		c.AddTable(w.table)
	}
	w.ports = &nftables.Set{Table: w.table, Name: "ports", KeyType: nftables.TypeInetService}
	var ports []nftables.SetElement
	for _, p := range w.config.Ports {
		ports = append(ports, nftables.SetElement{Key: binary.BigEndian.AppendUint16(nil, p)})
	}
	if err := c.AddSet(w.ports, ports); err != nil {
		return err
	}
	w.watched = []set{{w.ports.Name, ports[0].Key}}
	accept := nftables.ChainPolicyAccept
	w.hook = c.AddChain(&nftables.Chain{
		Name: "prerouting", Table: w.table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityRaw, Policy: &accept,
	})
	w.banned = c.AddChain(&nftables.Chain{Name: "banned", Table: w.table})
	c.AddRule(&nftables.Rule{Table: w.table, Chain: w.hook, Exprs: []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Lookup{SourceRegister: 1, SetName: w.ports.Name, SetID: w.ports.ID},
		&expr.Verdict{Kind: expr.VerdictGoto, Chain: w.banned.Name},
	}})
	return w.socket.flush()
}

// set is one whose elements can be lost.
type set struct {
	name   string
	canary []byte // a key that is always in it
}

// need makes the sets of prefix lengths that were not in use yet.
func (w *Writer) need(changes []feed.Change) error {
	before := len(w.watched)
	for _, c := range changes {
		name := setName(c.Prefix)
		if w.known[name] || c.For == 0 {
			continue
		}
		s, err := w.addSet(name, c.Prefix)
		if err != nil {
			return w.classified("sets", err)
		}
		w.known[name] = true
		w.watched = append(w.watched, s)
	}
	if len(w.watched) == before {
		return nil
	}
	err := w.socket.flush()
	if err != nil {
		for _, s := range w.watched[before:] {
			delete(w.known, s.name)
		}
		w.watched = w.watched[:before]
	}
	return w.classified("sets", err)
}

// addSet has the library make a set of prefixes like p, and the rule that drops
// what comes from them.
func (w *Writer) addSet(name string, p netip.Prefix) (set, error) {
	family, kind, from := byte(unix.NFPROTO_IPV4), nftables.TypeIPAddr, uint32(12)
	if p.Addr().Is6() {
		family, kind, from = unix.NFPROTO_IPV6, nftables.TypeIP6Addr, 8
	}
	canary := bytes.Repeat([]byte{0xff}, int(kind.Bytes))                                                             // no masked address, nor one that anybody sends from
	s := &nftables.Set{Table: w.table, Name: name, KeyType: kind, HasTimeout: true, Size: uint32(2*w.config.Max + 1)} //nolint:gosec // at most 2·MostBans
	if err := w.socket.library.AddSet(s, []nftables.SetElement{{Key: canary}}); err != nil {
		return set{}, err
	}
	exprs := []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{family}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: from, Len: kind.Bytes},
	}
	if p.Bits() < p.Addr().BitLen() {
		exprs = append(exprs, &expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: kind.Bytes, Mask: mask(p), Xor: make([]byte, kind.Bytes)})
	}
	exprs = append(exprs,
		&expr.Lookup{SourceRegister: 1, SetName: s.Name, SetID: s.ID},
		&expr.Counter{},
		&expr.Verdict{Kind: expr.VerdictDrop})
	w.socket.library.AddRule(&nftables.Rule{Table: w.table, Chain: w.banned, Exprs: exprs})
	return set{name, canary}, nil
}

// mask has the bits of a prefix set.
func mask(p netip.Prefix) []byte {
	m := make([]byte, p.Addr().BitLen()/8)
	for i := range p.Bits() {
		m[i/8] |= 0x80 >> (i % 8)
	}
	return m
}
