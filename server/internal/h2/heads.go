package h2

import (
	"encoding/binary"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fastlimit/fastlimit/server/internal/conn"
)

// maxLag is how many requests may have reached net/http but not ServeHTTP: those that it holds back while
// handlers end, and those about to be refused.
const maxLag = 5 * MaxStreams

// maxExcess is how many streams above [MaxStreams] a client may begin before it knows that bound: one that
// never acknowledges it would flood for free.
const maxExcess = 5 * MaxStreams

// heads counts the requests that a client begins, by its frames. net/http does not report what it refuses,
// such as malformed fields.
type heads struct {
	skip  int     // bytes that are not the head of a frame
	frame [9]byte // the head of the next one
	have  int     // bytes of frame
	last  uint32  // stream
	begun uint64
}

const (
	prefaceBytes = 24
	typeHeaders  = 1
)

// note scans what was read.
func (h *heads) note(b []byte) {
	for len(b) > 0 {
		if h.skip > 0 {
			n := min(h.skip, len(b))
			h.skip, b = h.skip-n, b[n:]
			continue
		}
		n := copy(h.frame[h.have:], b)
		h.have, b = h.have+n, b[n:]
		if h.have < len(h.frame) {
			return
		}
		h.have, h.skip = 0, int(h.frame[0])<<16|int(h.frame[1])<<8|int(h.frame[2])
		stream := binary.BigEndian.Uint32(h.frame[5:]) & (1<<31 - 1)
		if h.frame[3] == typeHeaders && stream > h.last { // those of a known stream are trailers
			h.last = stream
			h.begun++
		}
	}
}

// watched is a connection whose client is charged for requests that net/http refuses.
type watched struct {
	*conn.Session

	served  atomic.Uint64 // reached ServeHTTP and were not turned away
	excess  atomic.Uint64 // were above [MaxStreams]
	leaving atomic.Bool   // new requests are ignored from now on, and will be repeated elsewhere

	mu      sync.Mutex // net/http may read while the connection ends
	heads   heads      // guarded by mu
	charged uint64     // guarded by mu
}

// Read implements net.Conn.
func (w *watched) Read(p []byte) (n int, err error) {
	n, err = w.Session.Read(p)
	w.mu.Lock()
	w.heads.note(p[:n])
	w.mu.Unlock()
	w.charge(maxLag)
	return n, err
}

// countError uses net/http's classification of an error. A race is lost by a client that has not acknowledged
// the bound on streams.
func (w *watched) countError(kind string) {
	if strings.HasSuffix(kind, "over_max_streams_race") {
		w.excess.Add(1)
	}
}

// charge charges the client for all requests that did not reach ServeHTTP, except lag of them.
func (w *watched) charge(lag uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.served.Load() + min(w.excess.Load(), maxExcess) + w.charged + lag
	if w.heads.begun > known && !w.leaving.Load() {
		w.charged += w.heads.begun - known
		w.Refused(w.heads.begun - known)
	}
}
