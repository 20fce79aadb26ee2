package suggest

import "encoding/binary"

// arrivals are the times of one client's requests, in order. Requests in one microsecond are a run; a run is
// written as the time since the previous run and its length, two varints: two bytes if the log has whole
// seconds and the client pauses for less than a minute, so a busy client's list is far smaller than its
// lines.
//
// The last run is not written yet. So a client with one request has no buffer, and in a log with a million
// sources seen once buffers take nothing.
type arrivals struct {
	written []byte
	end     int64  // µs of the last run that is written
	at      int64  // µs of the last run
	n       uint64 // requests in the last run
	all     uint64 // requests
}

// A gap is written in seconds if it is whole seconds, else in µs; its lowest bit says which.
const (
	inMicros = 1
	second   = 1_000_000
)

// add appends a request at a time that is not before the last one.
func (a *arrivals) add(at int64) {
	a.all++
	if at == a.at || a.n == 0 {
		a.at = at
		a.n++
		return
	}
	gap := uint64(a.at - a.end)
	if gap%second == 0 {
		gap = gap / second << 1
	} else {
		gap = gap<<1 | inMicros
	}
	a.written = binary.AppendUvarint(a.written, gap)
	a.written = binary.AppendUvarint(a.written, a.n)
	a.end, a.at, a.n = a.at, at, 1
}

// runs reads arrivals from the first run on.
type runs struct {
	of   *arrivals
	rest []byte
	at   int64
	done bool
}

func (a *arrivals) runs() runs { return runs{of: a, rest: a.written} }

// next returns the time of the next run and its requests; 0 requests after the last.
func (r *runs) next() (at int64, n uint64) {
	if len(r.rest) == 0 {
		if r.done {
			return 0, 0
		}
		r.done = true
		return r.of.at, r.of.n
	}
	gap, w := binary.Uvarint(r.rest)
	r.rest = r.rest[w:]
	n, w = binary.Uvarint(r.rest)
	r.rest = r.rest[w:]
	if gap&inMicros != 0 {
		r.at += int64(gap >> 1)
	} else {
		r.at += int64(gap>>1) * second
	}
	return r.at, n
}
