package replay

import (
	"bytes"
	"errors"
	"net/netip"

	"github.com/fastlimit/fastlimit/internal/nat64"
	"github.com/fastlimit/fastlimit/policy"
)

// logLine is one line of an access log. Byte fields are unescaped, and nil if the
// log has none or "-". They are borrowed: valid until the next call of parser.parse
// and while the line is unchanged, so that parsing allocates once at most
// (TestParseAllocatesOnce).
type logLine struct {
	Time      int64 // Unix microseconds
	Client    netip.Addr
	Method    []byte
	Target    []byte
	VHost     []byte // as written: mixed case, perhaps with a port
	Referer   []byte
	UserAgent []byte

	// Values are the headers and cookies among parser.Needs, at their index, for a
	// line of JSON; nil for other formats, which have Referer and UserAgent only.
	Values [][]byte
}

// Reasons for which a line is skipped.
var (
	errNoClient   = errors.New("does not start with a client address")
	errNoTime     = errors.New("no time as in [02/Jan/2006:15:04:05 -0700]")
	errNoRequest  = errors.New("no quoted request after the time")
	errNoStatus   = errors.New("no status and size after the request")
	errLineTooBig = errors.New("longer than 65536 bytes")
)

// formats are those that a [parser] reads, for messages.
const formats = "the common and the combined log format of nginx and Apache, either behind vhost:port, " +
	"and JSON lines (Caddy's and fastlimit's as they are, others with --fields); plain or gzip"

// parser reads lines of the common and the combined log format, either of them also
// behind the "vhost:port" of Apache's vhost_combined, and lines of JSON. Fields after
// these are ignored. The zero value is ready to use. Not safe for concurrent use.
type parser struct {
	// Map says where fields are in JSON, and Needs which headers and cookies to
	// read from it. Neither may change after the first line has been parsed.
	Map   FieldMap
	Needs needs

	text  []byte                 // unescaped fields of the current line
	stamp [len(stampLayout)]byte // the last time stamp, which adjacent lines often share
	at    int64                  // its value; 0 if there is none

	compiled *jsonFields // Map and Needs, compiled at the first line of JSON
	values   [][]byte    // of the current line
}

// parse reads one line without its line end. The format is detected for each line. The error is one of those
// above, or of those for JSON.
func (p *parser) parse(b []byte) (logLine, error) {
	if len(b) > 0 && b[0] == '{' {
		return p.json(b)
	}
	p.text = p.text[:0]
	var l logLine
	rest, ok := l.client(b)
	if !ok {
		return logLine{}, errNoClient
	}
	if l.Time, rest, ok = p.time(rest); !ok {
		return logLine{}, errNoTime
	}
	request, rest, ok := quoted(rest)
	if !ok {
		return logLine{}, errNoRequest
	}
	if rest, ok = statusAndSize(rest); !ok {
		return logLine{}, errNoStatus
	}
	l.request(p.unescape(request))
	// From here on errors are ignored. A line that ends here, or that has bare
	// quotes in these two fields, as old servers wrote them, still says who asked
	// for what.
	l.Referer, rest, ok = quoted(rest)
	if l.Referer = p.unescape(l.Referer); ok {
		l.UserAgent, _, _ = quoted(rest)
		l.UserAgent = p.unescape(l.UserAgent)
	}
	return l, nil
}

// client reads the address, or the virtual host and then the address. An address is
// tried first, since an IPv4 address is also a valid host.
func (l *logLine) client(b []byte) (rest []byte, ok bool) {
	first, rest, _ := bytes.Cut(b, []byte(" "))
	if l.Client, ok = parseClient(first); ok {
		return rest, true
	}
	if _, ok := policy.AppendHost(nil, first); !ok || len(first) == 0 {
		return nil, false
	}
	l.VHost = first
	second, rest, _ := bytes.Cut(rest, []byte(" "))
	l.Client, ok = parseClient(second)
	return rest, ok
}

// parsePeer reads an address with or without a port. An IPv6 address with a port
// needs brackets, so the two forms cannot be confused.
func parsePeer(s string) (netip.Addr, bool) {
	if at, err := netip.ParseAddrPort(s); err == nil {
		s = at.Addr().String()
	}
	return parseClient([]byte(s))
}

// parseClient reads an address in the form that policy uses for clients: without a
// zone, and IPv4 if it is mapped into IPv6. It rejects the unspecified address.
func parseClient(b []byte) (netip.Addr, bool) {
	const longest = 45 + 1 + 32 // IPv4 in IPv6, and a zone
	if len(b) < 2 || len(b) > longest {
		return netip.Addr{}, false
	}
	var a netip.Addr
	if err := a.UnmarshalText(b); err != nil {
		return netip.Addr{}, false
	}
	a = nat64.Client(a.Unmap().WithZone(""))
	return a, a.IsValid() && !a.IsUnspecified()
}

// time finds the first valid time stamp. Identity and user precede it, and a user
// name may contain anything, including spaces and brackets.
func (p *parser) time(b []byte) (at int64, rest []byte, ok bool) {
	for {
		i := bytes.IndexByte(b, '[')
		if i < 0 {
			return 0, nil, false
		}
		b = b[i+1:]
		end := bytes.IndexByte(b, ']')
		if end < 0 {
			return 0, nil, false
		}
		if at, ok = p.stampOf(b[:end]); ok {
			return at, b[end+1:], true
		}
	}
}

// quoted reads a space and a string in double quotes, in which a backslash escapes
// the next byte. If the closing quote is missing, it returns the string up to the
// end of the line, with ok false.
func quoted(b []byte) (s, rest []byte, ok bool) {
	if len(b) < 2 || b[0] != ' ' || b[1] != '"' {
		return nil, nil, false
	}
	b = b[2:]
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return b[:i], b[i+1:], true
		}
	}
	return b, nil, false
}

// statusAndSize reads " 200 1234"; either may be "-".
func statusAndSize(b []byte) (rest []byte, ok bool) {
	for range 2 {
		if len(b) < 2 || b[0] != ' ' {
			return nil, false
		}
		b = b[1:]
		n := 0
		for n < len(b) && '0' <= b[n] && b[n] <= '9' {
			n++
		}
		if n == 0 && b[0] == '-' {
			n = 1
		}
		if n == 0 || n < len(b) && b[n] != ' ' {
			return nil, false
		}
		b = b[n:]
	}
	return b, true
}

// request splits "GET /path HTTP/1.1". Anything else, such as "-" or the first bytes
// of a TLS handshake, leaves method and target nil, but the line still counts: the
// client did send something. A target may contain spaces, as servers log it decoded.
func (l *logLine) request(b []byte) {
	method, target, found := bytes.Cut(b, []byte(" "))
	if !found || !isMethod(method) {
		return
	}
	if i := bytes.LastIndexByte(target, ' '); i >= 0 && bytes.HasPrefix(target[i+1:], []byte("HTTP/")) {
		target = target[:i]
	}
	l.Method, l.Target = method, target
}

// isMethod accepts upper-case letters, "-" and "_". That is less than HTTP's token,
// and keeps the bytes of a TLS handshake from passing for a method.
func isMethod(b []byte) bool {
	for _, c := range b {
		if (c < 'A' || c > 'Z') && c != '-' && c != '_' {
			return false
		}
	}
	return len(b) > 0
}
