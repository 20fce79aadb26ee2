package delta

// writer writes the packets of a tick into one buffer, which it reuses, so that a
// tick allocates nothing (TestNoAllocations).
type writer struct {
	packetSize, maxBytes int

	buf     []byte
	packets [][]byte // slices of buf
	bytes   int      // of packets
	header  []byte

	start     int // offset in buf of the open packet
	room      int // maximum size of the open packet
	open      int // index of the rule whose section is open; -1: none
	entriesAt int // offset in buf of the section's number of entries
	entries   int
}

// slack is room for a section header and one entry beyond the end of a packet:
// write appends first and truncates if the entry does not fit.
const slack = maxSection + minEntry + 4*9 + maxName

func newWriter(c *Config) writer {
	return writer{
		packetSize: c.PacketSize, maxBytes: c.MaxBytes,
		buf:     make([]byte, 0, c.MaxBytes+slack),
		packets: make([][]byte, 0, c.MaxBytes/c.PacketSize+2),
	}
}

// budget returns a lower bound of the bytes of entries that fit a tick, with sections of
// that many rules. Each packet may waste slack bytes at its end, and a section that
// continues in the next packet repeats its header.
func (w *writer) budget(rules int) int {
	room := 0
	for left := w.maxBytes; ; {
		size := w.next(left)
		if size == 0 {
			return max(room-rules*maxSection, room/2)
		}
		left -= size
		room += size - len(w.header) - slack
	}
}

// next returns the maximum size of the next packet if left bytes remain, or 0 if there is
// no next one.
func (w *writer) next(left int) int {
	if left < minPacketSize {
		return 0
	}
	return min(left, w.packetSize)
}

func (w *writer) begin(h *header) {
	w.header = appendHeader(w.header[:0], h)
	w.packets = w.packets[:0]
	w.bytes = 0
	w.buf = append(w.buf[:0], w.header...)
	w.start, w.open = 0, -1
	w.room = w.next(w.maxBytes)
}

// write adds an entry of rule i and reports whether there was room. It starts a
// section with header s, or a packet, where one is needed.
func (w *writer) write(i int, s *section, e *entry) bool {
	for {
		before, open := len(w.buf), w.open
		if w.open != i {
			w.closeSection()
			w.buf = appendSection(w.buf, s)
			w.open, w.entriesAt, w.entries = i, len(w.buf)-2, 0
		}
		w.buf = appendEntry(w.buf, e)
		if len(w.buf)-w.start <= w.room {
			w.entries++
			return true
		}
		w.buf = w.buf[:before]
		if open != i {
			w.open = -1
		}
		next := w.next(w.maxBytes - before)
		if next == 0 || before == w.start+len(w.header) { // an empty packet has no room either
			return false
		}
		w.closePacket()
		w.room = next
		w.start = len(w.buf)
		w.buf = append(w.buf, w.header...)
	}
}

func (w *writer) closeSection() {
	if w.open >= 0 {
		setEntries(w.buf[w.entriesAt:], w.entries)
		w.open = -1
	}
}

func (w *writer) closePacket() {
	w.closeSection()
	p := w.buf[w.start:len(w.buf):len(w.buf)]
	w.packets = append(w.packets, p)
	w.bytes += len(p)
}

// end returns the packets: at least one, so that peers know this node is alive.
func (w *writer) end() [][]byte {
	w.closePacket()
	return w.packets
}
