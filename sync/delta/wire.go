package delta

import (
	"crypto/sha256"
	"encoding/binary"
)

const (
	magic   = "fld"
	version = 2

	// minHeader is magic, version, cluster, incarnation, a sequence number and
	// a name of one byte.
	minHeader = len(magic) + 1 + 8 + 8 + 1 + 2
	// maxSection is the longest head of a section.
	maxSection = 8 + 4 + 8 + 4 + 3
	// maxGrain is that of package sketch.
	maxGrain = 1 << 24
	// minEntry is slot, generation, count, shed, position and an absent name.
	minEntry = 4 + 8 + 1
)

// clusterHash distinguishes clusters. It protects against mistakes, not attacks.
func clusterHash(name string) uint64 {
	sum := sha256.Sum256([]byte("fastlimit cluster " + name))
	return binary.LittleEndian.Uint64(sum[:])
}

// header is the head of a packet.
type header struct {
	cluster     uint64
	incarnation uint64
	seq         uint64
	node        []byte // borrowed from the packet
}

// section is the header of a packet's entries about one rule.
type section struct {
	identity uint64
	slots    uint64 // of the sender's table
	hidden   uint64 // units of one client that the sender may not have sent lately, over marks.Long marks
	grain    uint64 // of [toptalkers.Doubt]: shed units were sampled at 1/grain; 1: all were counted
	entries  uint64
}

// entry is one slot.
type entry struct {
	slot, gen, count, shed, pos uint64
	name                        []byte // borrowed from the packet; empty if not sent
}

// BansOf returns the node that a packet of bans claims to be from. ok is false for other
// packets.
func BansOf(packet []byte) (node string, ok bool) {
	r := reader{b: packet}
	if string(r.bytes(len(banMagic))) != banMagic || r.byte() != banVersion {
		return "", false
	}
	h := r.header()
	return string(h.node), !r.bad
}

func appendHeader(b []byte, h *header) []byte {
	return h.append(append(append(b, magic...), version))
}

// append writes what packets of both kinds have after magic and version.
func (h *header) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, h.cluster)
	b = binary.LittleEndian.AppendUint64(b, h.incarnation)
	b = binary.AppendUvarint(b, h.seq)
	b = append(b, byte(len(h.node)))
	return append(b, h.node...)
}

// appendSection reserves two bytes for the number of entries, see setEntries.
func appendSection(b []byte, s *section) []byte {
	b = binary.LittleEndian.AppendUint64(b, s.identity)
	b = binary.AppendUvarint(b, s.slots)
	b = binary.AppendUvarint(b, min(s.hidden, maxCount))
	b = binary.AppendUvarint(b, min(max(s.grain, 1), maxGrain))
	return append(b, 0x80, 0)
}

// setEntries writes n as a varint of exactly two bytes, so n < 2^14. The largest
// packet, 64 KiB, holds fewer entries than that: each takes minEntry bytes or more.
func setEntries(b []byte, n int) {
	b[0], b[1] = byte(n)|0x80, byte(n>>7)
}

func appendEntry(b []byte, e *entry) []byte {
	b = binary.AppendUvarint(b, e.slot)
	b = binary.AppendUvarint(b, e.gen)
	b = binary.AppendUvarint(b, e.count)
	b = binary.AppendUvarint(b, e.shed)
	b = binary.LittleEndian.AppendUint64(b, e.pos)
	b = append(b, byte(len(e.name)))
	return append(b, e.name...)
}

// reader parses a packet. After the first malformed value it is bad and returns
// zeros, so callers check once, at the end.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) more() bool { return !r.bad && len(r.b) > 0 }

func (r *reader) bytes(n int) []byte {
	if r.bad || n > len(r.b) {
		r.bad = true
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) byte() byte {
	if v := r.bytes(1); v != nil {
		return v[0]
	}
	return 0
}

func (r *reader) word() uint64 {
	if v := r.bytes(8); v != nil {
		return binary.LittleEndian.Uint64(v)
	}
	return 0
}

// uvarint reads a number; one outside [least, most] is malformed.
func (r *reader) uvarint(least, most uint64) uint64 {
	if r.bad {
		return 0
	}
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v < least || v > most {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// header reads the header after magic and version, which the caller has checked.
func (r *reader) header() (h header) {
	h.cluster, h.incarnation = r.word(), r.word()
	h.seq = r.uvarint(0, ^uint64(0))
	n := int(r.byte())
	r.bad = r.bad || n < 1 || n > MaxNodeName
	h.node = r.bytes(n)
	return h
}

func (r *reader) section() (s section) {
	s.identity = r.word()
	s.slots = r.uvarint(1, maxSlots)
	s.hidden = r.uvarint(0, maxCount)
	s.grain = r.uvarint(1, maxGrain)
	s.entries = r.uvarint(1, uint64(len(r.b)/minEntry)) // bounds the loops over them
	return s
}

func (r *reader) entry(s *section) (e entry) {
	e.slot = r.uvarint(0, max(s.slots, 1)-1)
	e.gen = r.uvarint(1, ^uint64(0))
	e.count = r.uvarint(1, maxCount)
	e.shed = r.uvarint(0, maxCount)
	e.pos = r.word()
	e.name = r.name()
	return e
}

// name reads a client's name.
func (r *reader) name() []byte {
	n := int(r.byte())
	r.bad = r.bad || n > maxName
	return r.bytes(n)
}

// wellFormed reports whether b consists of sections and nothing else.
func wellFormed(b []byte) bool {
	r := reader{b: b}
	for r.more() {
		s := r.section()
		for i := uint64(0); i < s.entries && !r.bad; i++ {
			r.entry(&s)
		}
	}
	return !r.bad
}
