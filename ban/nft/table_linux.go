package nft

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/fastlimit/fastlimit/ban/feed"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Constants that golang.org/x/sys lacks.
const (
	tableOwned  = 0x2 // NFT_TABLE_F_OWNER
	tableHandle = 4   // NFTA_TABLE_HANDLE
	tableOwner  = 7   // NFTA_TABLE_OWNER
)

// tableState is the kernel's description of a table.
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

// ownedByOther returns an error if another process owns the table, else nil. It is called
// after an operation has failed with EPERM or EEXIST.
func (w *Writer) ownedByOther() error {
	if t, err := w.state(); err == nil && t.flags&tableOwned != 0 {
		return w.taken(fmt.Sprintf(" (netlink port %d, which mostly is its process id)", t.owner))
	}
	return nil
}

// own makes a table that this socket owns, and replaces one without an owner. It returns
// false if the kernel does not support owners.
func (w *Writer) own() (bool, error) {
	name := text(nil, unix.NFTA_TABLE_NAME, w.config.Table)
	b, flags := begin(slices.Clone(name), unix.NFTA_TABLE_FLAGS)
	b = padded(binary.BigEndian.AppendUint32(b, tableOwned), flags)
	add := message(unix.NFT_MSG_NEWTABLE, netlink.Create|netlink.Excl, b)
	err := w.socket.transact(add)
	if errors.Is(err, unix.EEXIST) && w.ownedByOther() == nil {
		err = w.socket.transact(message(unix.NFT_MSG_DELTABLE, 0, name), add)
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		return false, nil
	}
	return err == nil, err
}

// build makes the contents of the table, in one transaction. Unless the table is owned, it
// also makes the table itself, and replaces one that was left behind.
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
	for _, p := range w.config.ports() {
		ports = append(ports, nftables.SetElement{Key: binary.BigEndian.AppendUint16(nil, p)})
	}
	if err := c.AddSet(w.ports, ports); err != nil {
		return err
	}
	w.watched = []set{{w.ports.Name, ports[0].Key}}
	w.banned = c.AddChain(&nftables.Chain{Name: "banned", Table: w.table})
	w.drops = c.AddChain(&nftables.Chain{Name: "drops", Table: w.table})
	w.hooks = []*nftables.Chain{w.addHook("prerouting", nftables.ChainHookPrerouting), w.addHook("input", nftables.ChainHookInput)}
	for _, l := range w.config.Listens {
		w.addDrop(l)
	}
	return w.socket.flush()
}

// addHook makes the library add a chain that checks packets to the ports.
func (w *Writer) addHook(name string, at *nftables.ChainHook) *nftables.Chain {
	accept := nftables.ChainPolicyAccept
	hook := w.socket.library.AddChain(&nftables.Chain{
		Name: name, Table: w.table, Type: nftables.ChainTypeFilter, Hooknum: at, Priority: nftables.ChainPriorityRaw, Policy: &accept,
	})
	w.socket.library.AddRule(&nftables.Rule{Table: w.table, Chain: hook, Exprs: append(toPort(),
		&expr.Lookup{SourceRegister: 1, SetName: w.ports.Name, SetID: w.ports.ID},
		&expr.Verdict{Kind: expr.VerdictGoto, Chain: w.banned.Name})})
	return hook
}

// toPort loads the destination port of a TCP packet.
func toPort() []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
	}
}

// addDrop makes the library add the rule that drops packets to an address and port, from
// any source: only packets of banned clients get here.
func (w *Writer) addDrop(to netip.AddrPort) {
	exprs := append(toPort(), &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, to.Port())})
	addr := to.Addr()
	family, offset := byte(unix.NFPROTO_IPV4), uint32(16)
	if addr.Is6() {
		family, offset = unix.NFPROTO_IPV6, 24
	}
	if addr.Is4() || !addr.IsUnspecified() {
		exprs = append(exprs, &expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{family}})
	}
	if addr.IsUnspecified() { // not what this machine forwards
		exprs = append(exprs, &expr.Fib{Register: 1, FlagDADDR: true, ResultADDRTYPE: true},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.NativeEndian.AppendUint32(nil, unix.RTN_LOCAL)})
	} else {
		exprs = append(exprs, &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: uint32(addr.BitLen() / 8)},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: addr.AsSlice()})
	}
	w.socket.library.AddRule(&nftables.Rule{Table: w.table, Chain: w.drops, Exprs: append(exprs, &expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop})})
}

// set is a set whose elements can be lost.
type set struct {
	name   string
	canary []byte // a key that is always in it
}

// need makes the sets of prefix lengths that were not in use yet.
func (w *Writer) need(changes []feed.Change) error {
	var added []kind
	for _, c := range changes {
		k := kindOf(c.Prefix)
		if c.For == 0 || w.known[k] != "" {
			continue
		}
		if err := w.addSet(k); err != nil {
			return w.classified("sets", err)
		}
		added = append(added, k)
	}
	if added == nil {
		return nil
	}
	err := w.socket.flush()
	if err != nil {
		w.watched = w.watched[:len(w.watched)-len(added)]
		for _, k := range added {
			delete(w.known, k)
		}
	}
	return w.classified("sets", err)
}

// addSet makes the library add a set, and the rule for packets from its prefixes.
func (w *Writer) addSet(k kind) error {
	family, key, from := byte(unix.NFPROTO_IPV4), nftables.TypeIPAddr, uint32(12)
	if k.v6 {
		family, key, from = unix.NFPROTO_IPV6, nftables.TypeIP6Addr, 8
	}
	canary := bytes.Repeat([]byte{0xff}, int(key.Bytes))                                                                 // neither a masked address nor a source address
	s := &nftables.Set{Table: w.table, Name: k.name(), KeyType: key, HasTimeout: true, Size: uint32(2*w.config.Max + 1)} // at most 2·MostBans
	if err := w.socket.library.AddSet(s, []nftables.SetElement{{Key: canary}}); err != nil {
		return err
	}
	exprs := []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{family}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: from, Len: key.Bytes},
	}
	if 8*int(key.Bytes) > k.bits {
		exprs = append(exprs, &expr.Bitwise{
			SourceRegister: 1, DestRegister: 1, Len: key.Bytes,
			Mask: net.CIDRMask(k.bits, 8*int(key.Bytes)), Xor: make([]byte, key.Bytes),
		})
	}
	exprs = append(exprs,
		&expr.Lookup{SourceRegister: 1, SetName: s.Name, SetID: s.ID},
		&expr.Verdict{Kind: expr.VerdictGoto, Chain: w.drops.Name})
	w.socket.library.AddRule(&nftables.Rule{Table: w.table, Chain: w.banned, Exprs: exprs})
	w.known[k] = s.Name
	w.watched = append(w.watched, set{s.Name, canary})
	return nil
}
