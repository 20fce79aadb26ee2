package delta

// writer writes the packets of a tick into one buffer, which it reuses.
type writer struct {
	packetSize int
	maxPackets int

	buf     []byte
	packets [][]byte // slices of buf
	bytes   int      // of packets
	header  []byte

	start     int // where the open packet begins in buf
	open      int // index of the rule whose section is open; -1: none
	entriesAt int // where the number of its entries stands
	entries   int
}

// slack is room for the entry that turns out not to fit.
const slack = maxSection + minEntry + 4*9 + MaxName

func newWriter(c *Config) writer {
	n := c.MaxBytes / c.PacketSize
	return writer{
		packetSize: c.PacketSize, maxPackets: n,
		buf:     make([]byte, 0, c.MaxBytes+slack),
		packets: make([][]byte, 0, n),
	}
}

// budget is how many bytes of entries fit for sure, with sections of that many
// rules. The end of a packet may stay empty, and a section may be cut in two.
func (w *writer) budget(rules int) int {
	room := w.maxPackets * (w.packetSize - len(w.header) - slack)
	return max(room-rules*maxSection, room/2)
}

func (w *writer) begin(h *header) {
	w.header = appendHeader(w.header[:0], h)
	w.packets = w.packets[:0]
	w.bytes = 0
	w.buf = append(w.buf[:0], w.header...)
	w.start, w.open = 0, -1
}

// write adds an entry of rule i, whose section has that head, and reports
// whether there is room.
func (w *writer) write(i int, s *section, e *entry) bool {
	for {
		before, open := len(w.buf), w.open
		if w.open != i {
			w.closeSection()
			w.buf = appendSection(w.buf, s)
			w.open, w.entriesAt, w.entries = i, len(w.buf)-2, 0
		}
		w.buf = appendEntry(w.buf, e)
		if len(w.buf)-w.start <= w.packetSize {
			w.entries++
			return true
		}
		w.buf = w.buf[:before]
		if open != i {
			w.open = -1
		}
		if len(w.packets) == w.maxPackets-1 || before == w.start+len(w.header) {
			return false
		}
		w.closePacket()
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

// end returns the packets: one at least, for the others to know that this node
// is there.
func (w *writer) end() [][]byte {
	w.closePacket()
	return w.packets
}
