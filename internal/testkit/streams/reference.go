package streams

import (
	"regexp"
	"strconv"
	"strings"
)

// The reference is a second reader of RFC 9112, written with nothing in common
// with the servers: it reads a stream as a whole, by the grammar.
var (
	refHead    = regexp.MustCompile(`\A(?:\r\n)?([!#$%&'*+\-.^_` + "`" + `|~0-9A-Za-z]+) ([!-~]+) HTTP/1\.([01])\r\n((?:[!#$%&'*+\-.^_` + "`" + `|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*\r\n)*)\r\n\z`)
	refChunk   = regexp.MustCompile(`\A([0-9A-Fa-f]+)((?:[\t ]*;[\t\x20-\x7e\x80-\xff]*)?)\r\n\z`)
	refTrailer = regexp.MustCompile(`\A[!#$%&'*+\-.^_` + "`" + `|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*\r\n\z`)
	refOrigin  = regexp.MustCompile(`\A(?:/|[A-Za-z][A-Za-z0-9+.\-]*://[^/?#@]+)`)
	refDigits  = regexp.MustCompile(`\A[0-9]+\z`)
)

// Request is a request as the reference reads it.
type Request struct {
	Method, Target string
	Minor          int                 // HTTP/1.Minor
	Fields         map[string][]string // values by name in small letters
	Chunked        bool
	Body           string
	Trailers       string // their lines
}

// Requests reads all requests of a stream before anything that is none. rest is what stands
// behind the last one; early, that this begins with the head of a request whose body is not
// good, or not whole, which is the last of all then.
func Requests(stream string) (all []Request, rest string, early bool) {
	for rest = stream; ; {
		end := strings.Index(rest, "\r\n\r\n") + len("\r\n\r\n")
		if end < len("\r\n\r\n") {
			return all, rest, false
		}
		m := refHead.FindStringSubmatch(latin1(rest[:end]))
		if m == nil || !refTarget(m[1], m[2]) {
			return all, rest, false
		}
		r := Request{Method: m[1], Target: m[2], Minor: int(m[3][0] - '0'), Fields: refFields(m[4])}
		size, ok := r.readBody(rest[end:])
		switch {
		case !ok && size < 0:
			return all, rest, false
		case !ok:
			return append(all, r), rest, true
		}
		all, rest = append(all, r), rest[end+size:]
		if !r.keepsOpen() {
			return all, rest, false
		}
	}
}

// Count is how many requests the reference reads in a stream, without one that is early.
func Count(stream string) (n int, early bool) {
	all, _, early := Requests(stream)
	if early {
		return len(all) - 1, true
	}
	return len(all), false
}

// latin1 makes each byte a character, so that the classes above are of bytes.
func latin1(s string) string {
	for i := range len(s) {
		if s[i] < 0x80 {
			continue
		}
		r := make([]rune, len(s))
		for i := range len(s) {
			r[i] = rune(s[i])
		}
		return string(r)
	}
	return s
}

func (r *Request) keepsOpen() bool {
	keep := r.Minor == 1
	options := strings.Split(strings.ToLower(strings.Join(r.Fields["connection"], ",")), ",")
	for _, o := range options {
		if strings.Trim(o, " \t") == "keep-alive" {
			keep = true
		}
	}
	for _, o := range options {
		if strings.Trim(o, " \t") == "close" {
			keep = false
		}
	}
	return keep
}

func refTarget(method, target string) bool {
	switch {
	case method == "CONNECT", method == "PRI", strings.Contains(target, "#"):
		return false
	case target == "*":
		return method == "OPTIONS"
	}
	return refOrigin.MatchString(target)
}

func refFields(lines string) map[string][]string {
	f := map[string][]string{}
	for line := range strings.SplitAfterSeq(lines, "\r\n") {
		if name, value, ok := strings.Cut(strings.TrimSuffix(line, "\r\n"), ":"); ok {
			name = strings.ToLower(name)
			f[name] = append(f[name], strings.Trim(value, " \t"))
		}
	}
	return f
}

// readBody reads the body at the start of a stream, and returns how many bytes that are. A
// negative number that is not ok tells that the head is not either.
func (r *Request) readBody(stream string) (size int, ok bool) {
	f := r.Fields
	lengths, codings, hosts := f["content-length"], f["transfer-encoding"], f["host"]
	switch {
	case len(hosts) > 1, r.Minor == 1 && (len(hosts) == 0 || hosts[0] == ""), len(lengths)+len(codings) > 1, len(codings) > 0 && r.Minor == 0:
		return -1, false
	case len(codings) == 1:
		if strings.ToLower(codings[0]) != "chunked" {
			return -1, false
		}
		r.Chunked = true
		return r.readChunks(stream)
	case len(lengths) == 1:
		if !refDigits.MatchString(lengths[0]) {
			return -1, false
		}
		n, err := strconv.ParseInt(lengths[0], 10, 64)
		if err != nil {
			return -1, false
		}
		if n > int64(len(stream)) {
			r.Body = stream
			return int(min(n, 1<<40)), false
		}
		r.Body = stream[:n]
		return int(n), true
	}
	return 0, true
}

func (r *Request) readChunks(stream string) (size int, ok bool) {
	var body strings.Builder
	defer func() { r.Body = body.String() }()
	line := func() string {
		end := strings.Index(stream[size:], "\r\n") + len("\r\n")
		if end < len("\r\n") {
			return ""
		}
		size += end
		return latin1(stream[size-end : size])
	}
	for {
		m := refChunk.FindStringSubmatch(line())
		if m == nil {
			return 0, false
		}
		n, err := strconv.ParseInt(m[1], 16, 62)
		if err != nil {
			return 0, false
		}
		if n == 0 {
			break
		}
		rest := stream[size:]
		if n+2 > int64(len(rest)) || rest[n] != '\r' || rest[n+1] != '\n' {
			body.WriteString(rest[:min(n, int64(len(rest)))])
			return 0, false
		}
		body.WriteString(rest[:n])
		size += int(n) + 2
	}
	for {
		switch l := line(); {
		case l == "\r\n":
			return size, true
		case !refTrailer.MatchString(l):
			return 0, false
		default:
			r.Trailers += l
		}
	}
}
