package delta

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

const (
	banMagic   = "flb"
	banVersion = 1

	// maxBanTime bounds times on the wire: 2^40 ms are 34 years, which fit a time.Duration.
	maxBanTime = 1 << 40
	maxTimes   = 1 << 16
)

// banEntry is a ban, or the end of one, as it is sent.
type banEntry struct {
	banID
	serial uint64
	left   time.Duration // whole milliseconds, as of the packet's sent time
	times  uint64        // 0: the ban has been lifted
	name   []byte        // as in entry
}

// banID identifies a banned client of a rule.
type banID struct {
	identity uint64 // of the rule
	digest   sketch.Digest
}

// appendBanHeader writes the head of a packet of bans.
func appendBanHeader(b []byte, h *header, sent time.Duration) []byte {
	b = h.append(append(append(b, banMagic...), banVersion))
	return binary.AppendUvarint(b, uint64(sent.Milliseconds()))
}

// appendBan writes an entry. Its time left is rounded down, so that no client is banned for
// longer elsewhere.
func appendBan(b []byte, e *banEntry) []byte {
	b = binary.LittleEndian.AppendUint64(b, e.identity)
	b = binary.AppendUvarint(b, e.serial)
	b = binary.AppendUvarint(b, min(uint64(max(e.left, 0).Milliseconds()), maxBanTime))
	b = binary.AppendUvarint(b, min(e.times, maxTimes))
	b = binary.LittleEndian.AppendUint64(b, e.digest.Pos)
	b = binary.LittleEndian.AppendUint64(b, e.digest.ID)
	name := e.name[:min(len(e.name), maxName)]
	b = append(b, byte(len(name)))
	return append(b, name...)
}

// duration reads a time in milliseconds.
func (r *reader) duration() time.Duration {
	return time.Duration(r.uvarint(0, maxBanTime)) * time.Millisecond
}

func (r *reader) ban() (e banEntry) {
	e.identity = r.word()
	e.serial = r.uvarint(1, math.MaxUint64)
	e.left = r.duration()
	e.times = r.uvarint(0, maxTimes)
	e.digest.Pos, e.digest.ID = r.word(), r.word()
	e.name = r.name()
	return e
}

// banPacketWellFormed reports whether b, the rest after a header, is a time and entries,
// and nothing else.
func banPacketWellFormed(b []byte) bool {
	r := reader{b: b}
	r.duration()
	for r.more() {
		r.ban()
	}
	return !r.bad
}

// banWriter writes the packets of bans of one tick. It reuses its buffers.
type banWriter struct {
	packetSize int
	left       int // bytes for packets after the open one
	header     []byte
	buf        []byte
	packets    [][]byte // slices of buf
	start      int      // of the open packet in buf
}

// newBanWriter returns a writer for ticks of at most that many bytes.
func newBanWriter(packetSize, maxBytes int) banWriter {
	return banWriter{packetSize: packetSize, buf: make([]byte, 0, maxBytes+packetSize)}
}

func (w *banWriter) begin(h *header, sent time.Duration, maxBytes int) {
	w.header = appendBanHeader(w.header[:0], h, sent)
	w.buf, w.packets, w.start = append(w.buf[:0], w.header...), w.packets[:0], 0
	w.left = maxBytes - w.packetSize
}

// write adds an entry and reports whether there was room.
func (w *banWriter) write(e *banEntry) bool {
	for {
		before := len(w.buf)
		w.buf = appendBan(w.buf, e)
		if len(w.buf)-w.start <= w.packetSize {
			return true
		}
		w.buf = w.buf[:before]
		if w.left < w.packetSize || w.empty() {
			return false
		}
		w.close()
		w.left -= w.packetSize
		w.start = len(w.buf)
		w.buf = append(w.buf, w.header...)
	}
}

// empty reports whether the open packet has no entry.
func (w *banWriter) empty() bool { return len(w.buf)-w.start == len(w.header) }

func (w *banWriter) close() { w.packets = append(w.packets, w.buf[w.start:len(w.buf):len(w.buf)]) }

// end returns the packets. If beat is set there is at least an empty one.
func (w *banWriter) end(beat bool) [][]byte {
	if !w.empty() || beat && len(w.packets) == 0 {
		w.close()
	}
	return w.packets
}
