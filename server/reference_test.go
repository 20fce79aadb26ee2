package server

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The reference is a second reader of RFC 9112, written with nothing in common
// with the gate: it reads a stream as a whole, by the grammar.
var (
	refHead    = regexp.MustCompile(`\A(?:\r\n)?([!#$%&'*+\-.^_` + "`" + `|~0-9A-Za-z]+) ([!-~]+) HTTP/1\.([01])\r\n((?:[!#$%&'*+\-.^_` + "`" + `|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*\r\n)*)\r\n`)
	refChunk   = regexp.MustCompile(`\A([0-9A-Fa-f]+)((?:[\t ]*;[\t\x20-\x7e\x80-\xff]*)?)\r\n`)
	refTrailer = regexp.MustCompile(`\A(?:[!#$%&'*+\-.^_` + "`" + `|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*\r\n)*\r\n`)
	refOrigin  = regexp.MustCompile(`\A(?:/|[A-Za-z][A-Za-z0-9+.\-]*://[^/?#@]+)`)
)

// latin1 makes each byte a character, so that the classes above are of bytes.
func latin1(s string) string {
	r := make([]rune, len(s))
	for i := range len(s) {
		r[i] = rune(s[i])
	}
	return string(r)
}

// reference is the number of requests that a stream holds before anything that
// is none.
func reference(stream string) (n int) {
	n, _ = referenceEarly(stream)
	return n
}

// referenceEarly tells, too, whether a good head follows whose body is not
// good, or not whole.
func referenceEarly(stream string) (n int, early bool) {
	rest := []rune(latin1(stream))
	for {
		m := refHead.FindStringSubmatch(string(rest))
		if m == nil || !refTarget(m[1], m[2]) {
			return n, false
		}
		body := rest[len([]rune(m[0])):]
		f := refFields(m[4])
		size, ok := refBody(f, m[3] == "1", string(body))
		if !ok {
			return n, size >= 0
		}
		n++
		rest = body[size:]
		options := strings.Split(strings.ToLower(strings.Join(f["connection"], ",")), ",")
		keep := m[3] == "1"
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
		if !keep {
			return n, false
		}
	}
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
	for _, line := range strings.SplitAfter(lines, "\r\n") {
		if name, value, ok := strings.Cut(strings.TrimSuffix(line, "\r\n"), ":"); ok {
			name = strings.ToLower(name)
			f[name] = append(f[name], strings.Trim(value, " \t"))
		}
	}
	return f
}

// refBody is the length of the body; a negative one that is not ok tells that
// the head is not either.
func refBody(f map[string][]string, http11 bool, body string) (size int, ok bool) {
	lengths, codings, hosts := f["content-length"], f["transfer-encoding"], f["host"]
	switch {
	case len(hosts) > 1, http11 && (len(hosts) == 0 || hosts[0] == ""), len(lengths)+len(codings) > 1, len(codings) > 0 && !http11:
		return -1, false
	case len(codings) == 1:
		if !strings.EqualFold(codings[0], "chunked") || codings[0] != latin1(codings[0]) && strings.ContainsRune(codings[0], 'K') {
			return -1, false
		}
		return refChunked(body)
	case len(lengths) == 1:
		if !regexp.MustCompile(`\A[0-9]+\z`).MatchString(lengths[0]) {
			return -1, false
		}
		n, err := strconv.ParseInt(lengths[0], 10, 64)
		if err != nil {
			return -1, false
		}
		return int(min(n, 1<<40)), n <= int64(len([]rune(body)))
	}
	return 0, true
}

func refChunked(body string) (size int, ok bool) {
	rest := []rune(body)
	for {
		m := refChunk.FindStringSubmatch(string(rest))
		if m == nil {
			return 0, false
		}
		size += len([]rune(m[0]))
		rest = rest[len([]rune(m[0])):]
		n, err := strconv.ParseInt(m[1], 16, 62)
		if err != nil {
			return 0, false
		}
		if n == 0 {
			break
		}
		if n+2 > int64(len(rest)) || rest[n] != '\r' || rest[n+1] != '\n' {
			return 0, false
		}
		size += int(n) + 2
		rest = rest[n+2:]
	}
	m := refTrailer.FindString(string(rest))
	return size + len([]rune(m)), m != ""
}

// FuzzGate: for any stream the server answers no more requests with 200 than
// the reference reads in it, charges exactly those, and reads nothing behind
// what it refused, no matter how the stream is cut.
func FuzzGate(f *testing.F) {
	for i, it := range corpus() {
		if len(it.stream) < 2000 && i%7 == 0 {
			f.Add([]byte(it.stream), uint8(i))
		}
	}
	s := unlimited(f)
	f.Fuzz(func(t *testing.T, stream []byte, how uint8) {
		all, charged := statuses(t, s, cut(string(stream), int(how))...)
		oks := countOKs(all)
		most, early := referenceEarly(string(stream))
		if early && how > 0 {
			most++
		}
		if oks > most {
			t.Fatalf("%q: %v, but the reference reads %d requests", stream, all, most)
		}
		if uint64(oks) != charged {
			t.Fatalf("%q: %d times 200, %d charged", stream, oks, charged)
		}
		for i, status := range all {
			if status != 200 && i != len(all)-1 {
				t.Fatalf("%q: answered on after a refusal: %v", stream, all)
			}
		}
	})
}
