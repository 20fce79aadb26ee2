package replay

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// Times are Unix microseconds everywhere in this package: no log is finer, and the
// oracle counts in them.
const (
	stampLayout = "02/Jan/2006:15:04:05 -0700"
	stampSecond = len("02/Jan/2006:15:04:05") // where a fraction stands, if there is one
	second      = int64(time.Second / time.Microsecond)
)

// stampOf parses the contents of a time stamp's brackets and returns Unix
// microseconds. The fraction of a second, if there is one, is parsed apart, so that
// the cache of wholeSeconds works for such logs too.
func (p *parser) stampOf(b []byte) (at int64, ok bool) {
	fraction := int64(0)
	if len(b) > len(stampLayout) && b[stampSecond] == '.' {
		end := bytes.IndexByte(b, ' ')
		if fraction, ok = micros(b[stampSecond+1 : max(end, stampSecond+1)]); !ok || len(b)-end != len(stampLayout)-stampSecond {
			return 0, false
		}
		var whole [len(stampLayout)]byte
		copy(whole[copy(whole[:], b[:stampSecond]):], b[end:])
		at, ok = p.wholeSeconds(whole[:])
		return at + fraction, ok
	}
	if len(b) != len(stampLayout) {
		return 0, false
	}
	return p.wholeSeconds(b)
}

// wholeSeconds caches the last stamp: in a busy log most lines share it with the line
// before, which saves a time.Parse.
func (p *parser) wholeSeconds(b []byte) (at int64, ok bool) {
	if p.at != 0 && string(b) == string(p.stamp[:]) {
		return p.at, true
	}
	t, err := time.Parse(stampLayout, string(b))
	if err != nil {
		return 0, false
	}
	p.at = t.UnixMicro()
	copy(p.stamp[:], b)
	return p.at, true
}

// micros parses the digits after the decimal point of a number of seconds. Anything
// below a microsecond is cut off.
func micros(digits []byte) (int64, bool) {
	v, unit := int64(0), second/10
	for _, c := range digits {
		if c < '0' || '9' < c {
			return 0, false
		}
		v += int64(c-'0') * unit
		unit /= 10
	}
	return v, len(digits) > 0
}

// epoch parses a number of seconds, milliseconds, microseconds or nanoseconds since
// 1970. Its size tells the unit, for times from 1973 to 5138. Scientific notation
// is expanded first.
func epoch(s string) (at int64, ok bool) {
	whole, digits, pointed := strings.Cut(s, ".")
	if strings.ContainsAny(digits, "eE") || strings.ContainsAny(whole, "eE") {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || f < 0 || f > 1e19 {
			return 0, false
		}
		return epoch(strconv.FormatFloat(f, 'f', -1, 64))
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n < 0 {
		return 0, false
	}
	fraction := int64(0)
	if pointed {
		if fraction, ok = micros([]byte(digits)); !ok {
			return 0, false
		}
	}
	switch {
	case n < 1e11: // seconds, as Caddy writes them
		return n*second + fraction, true
	case n < 1e14: // milliseconds
		return n*1000 + fraction/1000, true
	case n < 1e17: // microseconds
		return n, true
	}
	return n / 1000, true // nanoseconds
}

// textLayouts are the layouts of times in JSON. time.Parse accepts a fraction of a
// second in each of them. Without a zone the time is taken as UTC.
var textLayouts = []string{
	time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006/01/02 15:04:05", stampLayout,
}

// textTime parses the time of a line of JSON. Numbers come first: most logs have them,
// and no layout accepts one.
func (p *parser) textTime(s string) (at int64, ok bool) {
	if at, ok = epoch(s); ok {
		return at, true
	}
	if at, ok = p.stampOf([]byte(s)); ok {
		return at, true
	}
	for _, layout := range textLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UnixMicro(), t.Year() > 0
		}
	}
	return 0, false
}
