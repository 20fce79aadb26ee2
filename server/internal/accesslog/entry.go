package accesslog

import (
	"bytes"
	"math"
	"net/netip"
	"strconv"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Entry is one answered request. Zero fields are left out of its line, except for those that every request
// has. All bytes are borrowed for the call.
type Entry struct {
	Time   time.Time  // when the request was read
	Client netip.Addr // invalid: not known
	Peer   netip.Addr // of the connection; shown if it is not the client

	Method, Host, Path []byte // as sent; the path may have a query

	Status   int
	Bytes    int64         // of the body of the answer
	Duration time.Duration // until the answer was ready

	Upstream     string        // that answered; empty: none was asked
	UpstreamTime time.Duration // until its first byte

	Decision string // allow, deny or refused
	Rule     string // that decided; empty: a list, or none
	Stage    string
	Reason   string // why the request was refused

	UserAgent, Referer []byte
	Reused             bool // it is not the first request of its connection
}

// Bounds on clients' text, in bytes. Longer text ends with "…".
const (
	maxMethod = 32
	maxHost   = 256
	maxPath   = 4096
	maxText   = 256 // user agent and referer
)

// append appends the line of an entry. docs/operations.md lists all fields.
func (e *Entry) append(dst []byte, queries bool) []byte {
	path, referer := e.Path, e.Referer
	if !queries {
		path, referer = withoutQuery(path), withoutQuery(referer)
	}
	dst = append(dst, `{"time":"`...)
	dst = e.Time.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000000Z")
	dst = append(dst, `","client":"`...)
	if e.Client.IsValid() {
		dst = e.Client.AppendTo(dst)
	}
	dst = append(dst, '"')
	if e.Peer.IsValid() && e.Peer != e.Client {
		dst = append(dst, `,"peer":"`...)
		dst = append(e.Peer.AppendTo(dst), '"')
	}
	dst = appendText(append(dst, `,"method":`...), e.Method, maxMethod)
	dst = appendText(append(dst, `,"host":`...), e.Host, maxHost)
	dst = appendText(append(dst, `,"path":`...), path, maxPath)
	dst = strconv.AppendInt(append(dst, `,"status":`...), int64(e.Status), 10)
	dst = strconv.AppendInt(append(dst, `,"bytes":`...), e.Bytes, 10)
	dst = appendSeconds(append(dst, `,"duration":`...), e.Duration)
	if e.Upstream != "" {
		dst = appendName(dst, "upstream", e.Upstream)
		dst = appendSeconds(append(dst, `,"upstream_time":`...), e.UpstreamTime)
	}
	dst = appendName(dst, "decision", e.Decision)
	dst = appendName(dst, "rule", e.Rule)
	dst = appendName(dst, "stage", e.Stage)
	dst = appendName(dst, "reason", e.Reason)
	dst = appendBytes(dst, "user_agent", e.UserAgent)
	dst = appendBytes(dst, "referer", referer)
	if e.Reused {
		dst = append(dst, `,"reused":true`...)
	}
	return append(dst, '}', '\n')
}

// withoutQuery returns a target or URL up to its query or fragment.
func withoutQuery(url []byte) []byte {
	if i := bytes.IndexAny(url, "?#"); i >= 0 {
		return url[:i]
	}
	return url
}

// appendName appends a field with a short text of our own.
func appendName(dst []byte, name, text string) []byte {
	if text == "" {
		return dst
	}
	dst = append(append(append(dst, `,"`...), name...), `":"`...)
	for i := range len(text) {
		dst = appendByte(dst, text[i])
	}
	return append(dst, '"')
}

// appendBytes appends a field with a client's text.
func appendBytes(dst []byte, name string, text []byte) []byte {
	if len(text) == 0 {
		return dst
	}
	dst = append(append(append(dst, `,"`...), name...), `":`...)
	return appendText(dst, text, maxText)
}

// appendSeconds appends a time in seconds with six decimals.
func appendSeconds(dst []byte, d time.Duration) []byte {
	us := max(0, d.Microseconds())
	dst = strconv.AppendInt(dst, us/1e6, 10)
	dst = append(dst, '.')
	for unit := int64(1e5); unit > 0; unit /= 10 {
		dst = append(dst, byte('0'+us/unit%10))
	}
	return dst
}

// appendText appends a JSON string of at most most bytes of text. Whatever could move a terminal's cursor or
// change how a line looks is escaped, and invalid UTF-8 becomes U+FFFD.
func appendText(dst, text []byte, most int) []byte {
	dst = append(dst, '"')
	cut := len(text) > most
	if cut {
		for most > 0 && !utf8.RuneStart(text[most]) {
			most--
		}
		text = text[:most]
	}
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			dst = appendByte(dst, c)
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(dst, `\ufffd`...)
		case unicode.IsPrint(r):
			dst = append(dst, text[i:i+size]...)
		case r > math.MaxUint16:
			hi, lo := utf16.EncodeRune(r)
			dst = appendEscape(appendEscape(dst, hi), lo)
		default: // controls, JavaScript line ends, changes of text direction
			dst = appendEscape(dst, r)
		}
		i += size
	}
	if cut {
		dst = append(dst, "…"...)
	}
	return append(dst, '"')
}

func appendByte(dst []byte, c byte) []byte {
	switch {
	case c == '"' || c == '\\':
		return append(dst, '\\', c)
	case c < ' ' || c == 0x7f:
		return appendEscape(dst, rune(c))
	}
	return append(dst, c)
}

// appendEscape appends \u and four digits, for a rune below 2^16.
func appendEscape(dst []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	r &= math.MaxUint16
	return append(dst, '\\', 'u', digits[r>>12], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}
