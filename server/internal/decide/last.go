package decide

import (
	"time"

	"github.com/fastlimit/fastlimit"
)

// appendDenial appends the answer to a request that a rule denies.
func (j *requestState) appendDenial(dst []byte, d *deny, date []byte, v *fastlimit.Decision, last bool) []byte {
	out, ok := j.last.append(dst, d, date, v, last)
	if ok {
		return out
	}
	out = d.append(dst, date, v, last)
	j.last.keep(out[len(dst):])
	return out
}

// lastDenial remembers the last rendered denial. A flooding client gets the same one for a millisecond, the
// precision of its fields: a few hundred times on a core (rendering is 2 % of such a request). It is kept
// when it is rendered for the second time, so that a flood of many clients costs no copies. The zero value is
// ready. Not safe for concurrent use.
type lastDenial struct {
	key   denialKey
	bytes []byte // empty: not kept
	again bool   // it is being rendered for the second time
}

// append appends a denial. A body that varies is appended here, with its length.
func (a *deny) append(dst, date []byte, d *fastlimit.Decision, last bool) []byte {
	dst = a.rendered.begin(dst, date)
	if a.answer.Body != nil {
		return a.rendered.end(a.answer.AppendFields(dst, d), last)
	}
	dst = a.answer.AppendFields(appendLength(dst, a.answer.BodyLength(d)), d)
	return a.answer.AppendBody(a.rendered.end(dst, last), d)
}

// denialKey is everything that the bytes of a denial depend on.
type denialKey struct {
	deny         *deny
	date         *byte // dates makes a new line each second
	remaining    int64
	retry, empty time.Duration // in ms, rounded up
	last         bool
}

// append appends the denial if it is the kept one. If not, it has to be rendered, and keep called with its
// bytes.
func (l *lastDenial) append(dst []byte, d *deny, date []byte, v *fastlimit.Decision, last bool) ([]byte, bool) {
	k := denialKey{d, &date[0], v.Remaining, ceilMs(v.RetryAfter), ceilMs(v.TimeToEmpty), last}
	if l.key != k {
		l.key, l.bytes, l.again = k, l.bytes[:0], false
		return dst, false
	}
	l.again = len(l.bytes) == 0
	return append(dst, l.bytes...), !l.again
}

func (l *lastDenial) keep(b []byte) {
	if l.again {
		l.bytes = append(l.bytes[:0], b...)
	}
}

// ceilMs rounds up. Nothing overflows, however long the wait is.
func ceilMs(d time.Duration) time.Duration {
	ms := d / time.Millisecond
	if d > ms*time.Millisecond {
		ms++
	}
	return ms
}
