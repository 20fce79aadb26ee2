package denial

import (
	"strconv"
	"time"

	"github.com/fastlimit/fastlimit"
)

// Values are the field values of one denial. They point into a buffer of their own
// and are valid until it is rendered into again. The zero value is ready. Reuse it in
// place: it allocates only to grow beyond its longest values. Not safe for concurrent
// use.
type Values struct {
	RetryAfter, RateLimit, Remaining, Clear, Reset []byte

	buf   []byte
	first [128]byte // buf, until it has to be longer
}

// Name is the name of a header field, both as net/http and as fasthttp take it.
type Name struct {
	String string
	Bytes  []byte // do not change
}

func nameOf(s string) Name { return Name{s, []byte(s)} }

// Header names as their documents spell them: keep the spelling on the wire where
// the server allows it.
var (
	nameCacheControl    = nameOf(CacheControl)
	nameRetryAfter      = nameOf("Retry-After")
	nameRateLimitPolicy = nameOf("RateLimit-Policy")
	nameRateLimit       = nameOf("RateLimit")
	nameRemaining       = nameOf("X-RateLimit-Remaining")
	nameReset           = nameOf("X-RateLimit-Reset")
	nameClear           = nameOf("X-RateLimit-Clear")

	noStore = []byte(NoStore)
)

// SetFields calls set for each header field of a decision. A denial has all of
// them but Content-Type. An admission has RateLimit-Policy and, where the bucket
// is known exactly, RateLimit, X-RateLimit-Remaining and X-RateLimit-Clear. v is
// scratch, from which the values borrow. It does not allocate.
func (a *Answer) SetFields(v *Values, d *fastlimit.Decision, set func(Name, []byte)) {
	set(nameRateLimitPolicy, a.policy)
	if d.Allowed && d.Remaining == fastlimit.RemainingUnknown {
		return
	}
	a.Render(v, d)
	if !d.Allowed {
		set(nameRetryAfter, v.RetryAfter)
		set(nameReset, v.Reset)
		set(nameCacheControl, noStore)
	}
	set(nameRateLimit, v.RateLimit)
	set(nameRemaining, v.Remaining)
	set(nameClear, v.Clear)
}

// Render fills v for a decision. RetryAfter and Reset have a meaning for denials only.
// All values are appended to one buffer and cut out of it at the end, since it may move
// while it grows.
func (a *Answer) Render(v *Values, d *fastlimit.Decision) {
	left := max(d.Remaining, 0)
	retry := max(ceil(d.RetryAfter, time.Second), 1)

	if v.buf == nil {
		v.buf = v.first[:]
	}
	b := strconv.AppendInt(v.buf[:0], retry, 10)
	afterRetry := len(b)
	b = append(b, a.item...)
	b = append(b, ";r="...)
	b = strconv.AppendInt(b, min(left, maxInteger), 10)
	if !d.Allowed {
		b = append(b, ";t="...)
		b = strconv.AppendInt(b, retry, 10)
	}
	afterLimit := len(b)
	b = strconv.AppendInt(b, left, 10)
	afterLeft := len(b)
	b = appendSeconds(b, d.RetryAfter)
	afterReset := len(b)
	b = appendSeconds(b, d.TimeToEmpty)

	v.buf = b
	v.RetryAfter = b[:afterRetry]
	v.RateLimit = b[afterRetry:afterLimit]
	v.Remaining = b[afterLimit:afterLeft]
	v.Reset = b[afterLeft:afterReset]
	v.Clear = b[afterReset:]
}

// appendSeconds writes d in seconds with three decimals, rounded up.
func appendSeconds(b []byte, d time.Duration) []byte {
	ms := ceil(max(d, 0), time.Millisecond)
	b = strconv.AppendInt(b, ms/1000, 10)
	frac := ms % 1000
	return append(b, '.', byte('0'+frac/100), byte('0'+frac/10%10), byte('0'+frac%10))
}
