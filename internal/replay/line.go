package replay

import (
	"bytes"
	"errors"
	"net/netip"

	"github.com/fastlimit/fastlimit/policy"
)

// logLine is one line of an access log. Byte fields are unescaped, nil where the
// log has none or "-", and borrowed: they are valid until the next call of
// parser.parse and as long as the line is unchanged.
type logLine struct {
	Time      int64 // Unix microseconds
	Client    netip.Addr
	Method    []byte
	Target    []byte
	VHost     []byte // as written: mixed case, perhaps with a port
	Referer   []byte
	UserAgent []byte

	// Values are those of parser.Names, of a line of JSON; nil for other
	// formats, which have Referer and UserAgent only.
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
	"and JSON lines (Caddy's as they are, others with --fields); plain or gzip"

// parser reads lines of the common and the combined log format, of either
// behind the "vhost:port" of Apache's vhost_combined, and of JSON. Fields after
// these are ignored. The zero value is ready. It is not safe for concurrent use.
type parser struct {
	// Map says where fields are in JSON. Names are the headers and cookies
	// to read from it, as "header:X-Api-Key" and "cookie:sid". Not to be
	// changed once a line was parsed.
	Map   FieldMap
	Names []string

	text  []byte                 // unescaped fields of the current line
	stamp [len(stampLayout)]byte // the last time stamp: neighbours share it
	at    int64                  // its value; 0 if there is none

	compiled *jsonFields // once there was a line of JSON
	values   [][]byte    // of the current line
}

// Parse reads one line without its line end. The error is one of those above.
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
	// A log cut off here, or with bare quotes in these two, as old servers
	// wrote them, still tells who asked for what.
	l.Referer, rest, ok = quoted(rest)
	if l.Referer = p.unescape(l.Referer); ok {
		l.UserAgent, _, _ = quoted(rest)
		l.UserAgent = p.unescape(l.UserAgent)
	}
	return l, nil
}

// client reads the address, or the virtual host and the address.
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

// parsePeer reads an address that a port may follow.
func parsePeer(s string) (netip.Addr, bool) {
	if a, ok := parseClient([]byte(s)); ok {
		return a, true
	}
	ap, err := netip.ParseAddrPort(s)
	if err != nil {
		return netip.Addr{}, false
	}
	return parseClient([]byte(ap.Addr().String()))
}

// parseClient reads an address as clients have it: unmapped, without a zone.
func parseClient(b []byte) (netip.Addr, bool) {
	const longest = 45 + 1 + 32 // IPv4 in IPv6, and a zone
	if len(b) < 2 || len(b) > longest {
		return netip.Addr{}, false
	}
	var a netip.Addr
	if err := a.UnmarshalText(b); err != nil {
		return netip.Addr{}, false
	}
	a = a.Unmap().WithZone("")
	return a, a.IsValid() && !a.IsUnspecified()
}

// time finds the first time stamp. Identity and user stand before it, and user
// names may hold anything, blanks and brackets included.
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

// quoted reads a blank and a string in double quotes, in which a backslash
// escapes the next byte. A string that does not end is returned up to the end
// of the line, with ok false.
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

// request splits "GET /path HTTP/1.1". What is no request, "-" for instance or
// the first bytes of a TLS handshake, leaves method and target nil: the client
// did send something.
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

func isMethod(b []byte) bool {
	for _, c := range b {
		if (c < 'A' || c > 'Z') && c != '-' && c != '_' {
			return false
		}
	}
	return len(b) > 0
}
