package count

import (
	"encoding/binary"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/rls/descriptor"
	"github.com/fastlimit/fastlimit/sketch"
	"github.com/fastlimit/fastlimit/sync/delta"
)

// A packet, little-endian and with varints as in package encoding/binary:
//
//	packet: "fln", version 1 (1 byte), incarnation (8 bytes), length of the node's name
//	        (1 byte), name, time since 1970 in s (varint), entries up to its end
//	entry:  position and identity of the counter (8 + 8 bytes), its unit in the low half of
//	        a byte and in the high half how many windows before the packet's time it is,
//	        count (varint, 1 to 2^32-1)
//
// Strangers cannot make one: package gossip encrypts packets.
const (
	magic     = "fln\x01"
	entryMost = 16 + 1 + binary.MaxVarintLen32
	minPacket = len(magic) + 8 + 1 + delta.MaxNodeName + binary.MaxVarintLen64 + entryMost

	accepted = delta.NumReasons
)

// header is the head of a packet.
type header struct {
	incarnation uint64
	node        string
	time        time.Duration
}

// entry is what a packet says of a counter.
type entry struct {
	counter

	state uint64 // its window<<32 | count
}

// writer makes the packets of a tick. Their memory is used again by the next.
type writer struct {
	head   []byte
	size   int // the most of a packet
	now    time.Duration
	buf    []byte // the packets, one behind the other
	starts []int
}

func (w *writer) begin(c *NodesConfig, now time.Duration) {
	w.size, w.now, w.buf, w.starts = c.PacketSize, now, w.buf[:0], w.starts[:0]
	w.head = append(w.head[:0], magic...)
	w.head = binary.LittleEndian.AppendUint64(w.head, c.Incarnation)
	w.head = append(append(w.head, byte(len(c.Node))), c.Node...)
	w.head = binary.AppendUvarint(w.head, uint64(now/time.Second))
}

// write adds an entry unless there would be more than so many bytes in all packets.
func (w *writer) write(room int, c counter, state uint64) bool {
	back := window(w.now, c.unit) - state>>32
	if back > 15 || state&bucket.MaxWindowUnits == 0 {
		return true // long over, or by a clock that was set back since: nothing to say
	}
	if len(w.starts) == 0 || len(w.buf)-w.starts[len(w.starts)-1]+entryMost > w.size {
		if len(w.buf)+len(w.head)+entryMost > room {
			return false
		}
		w.starts = append(w.starts, len(w.buf))
		w.buf = append(w.buf, w.head...)
	} else if len(w.buf)+entryMost > room {
		return false
	}
	w.buf = binary.LittleEndian.AppendUint64(w.buf, c.digest.Pos)
	w.buf = binary.LittleEndian.AppendUint64(w.buf, c.digest.ID)
	w.buf = append(w.buf, byte(c.unit)|byte(back)<<4)
	w.buf = binary.AppendUvarint(w.buf, state&bucket.MaxWindowUnits)
	return true
}

// end returns the packets.
func (w *writer) end() (packets [][]byte) {
	for i, start := range w.starts {
		end := len(w.buf)
		if i+1 < len(w.starts) {
			end = w.starts[i+1]
		}
		packets = append(packets, w.buf[start:end])
	}
	return packets
}

// read takes a packet apart; entries are appended. A packet is read whole or not at all.
func read(b []byte, entries []entry) (h header, _ []entry, _ delta.Reason) {
	if len(b) < len(magic)+8+1 || string(b[:3]) != magic[:3] {
		return h, entries, delta.Malformed
	}
	if b[3] != magic[3] {
		return h, entries, delta.Version
	}
	b = b[len(magic):]
	h.incarnation = binary.LittleEndian.Uint64(b)
	name := int(b[8])
	if b = b[9:]; name > min(len(b), delta.MaxNodeName) {
		return h, entries, delta.Malformed
	}
	h.node = string(b[:name])
	seconds, n := binary.Uvarint(b[name:])
	if n <= 0 || seconds > uint64(maxTime/time.Second) {
		return h, entries, delta.Malformed
	}
	h.time = time.Duration(seconds) * time.Second
	for b = b[name+n:]; len(b) > 0; {
		e, rest, ok := readEntry(b, h.time)
		if !ok {
			return h, entries, delta.Malformed
		}
		entries, b = append(entries, e), rest
	}
	return h, entries, accepted
}

// maxTime is the last whose windows of a second have a number.
const maxTime = (1<<32 - 1) * time.Second

func readEntry(b []byte, at time.Duration) (e entry, rest []byte, ok bool) {
	if len(b) < 16+1+1 {
		return e, b, false
	}
	e.digest = sketch.Digest{Pos: binary.LittleEndian.Uint64(b), ID: binary.LittleEndian.Uint64(b[8:])}
	e.unit = descriptor.Unit(b[16] & 15)
	if !e.unit.Valid() {
		return e, b, false
	}
	back, now := uint64(b[16]>>4), window(at, e.unit)
	count, n := binary.Uvarint(b[17:])
	if n <= 0 || count == 0 || count > bucket.MaxWindowUnits || back > now {
		return e, b, false
	}
	e.state = (now-back)<<32 | count
	return e, b[17+n:], true
}
