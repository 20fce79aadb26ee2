package decide

import (
	"bytes"
	"slices"
	"strings"

	"github.com/fastlimit/fastlimit/server/internal/text"
	"github.com/valyala/fasthttp"
)

// fieldLines walks the field lines of a raw head that has passed the gate.
type fieldLines struct{ rest []byte }

// next returns the value of the next line with the name, which is a token.
func (l *fieldLines) next(name string) (value []byte, ok bool) {
	for len(l.rest) > len(name) {
		line, rest, _ := bytes.Cut(l.rest, []byte{'\n'})
		l.rest = rest
		if len(line) > len(name) && line[len(name)] == ':' && text.IsName(line[:len(name)], name) {
			return bytes.TrimSuffix(line[len(name)+1:], []byte{'\r'}), true
		}
	}
	return nil, false
}

// appendHeaders appends the values of all headers with that name.
func appendHeaders(dst [][]byte, head []byte, name string) [][]byte {
	lines := fieldLines{head}
	for {
		value, ok := lines.next(name)
		if !ok {
			return dst
		}
		dst = append(dst, text.TrimBlanks(value))
	}
}

// appendCookies appends the values of all cookies with that name, without quotes. It accepts any value,
// unlike fasthttp: a cookie that only the upstream knew would be in no bucket.
func appendCookies(dst [][]byte, head []byte, name string) [][]byte {
	lines := fieldLines{head}
	for {
		pairs, ok := lines.next(fasthttp.HeaderCookie)
		if !ok {
			return dst
		}
		for more := true; more; {
			var pair []byte
			pair, pairs, more = bytes.Cut(pairs, []byte{';'})
			k, v, ok := bytes.Cut(pair, []byte{'='})
			if ok && string(text.TrimBlanks(k)) == name {
				dst = append(dst, unquote(text.TrimBlanks(v)))
			}
		}
	}
}

func unquote(v []byte) []byte {
	if len(v) >= 2 && v[0] == '"' && v[len(v)-1] == '"' {
		return v[1 : len(v)-1]
	}
	return v
}

// kept are the fields that a Connection field does not remove: those that are rewritten, and that of an
// upgrade, which must be named there.
var kept = []string{"Host", "Content-Length", "Transfer-Encoding", "Expect", "Upgrade", "Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host"}

// removes reports whether a Connection field names another field, which is then not passed on.
func removes(head []byte, name string) bool {
	lines := fieldLines{head}
	for {
		value, ok := lines.next(fasthttp.HeaderConnection)
		if !ok {
			return false
		}
		for more := true; more; {
			var option []byte
			if option, value, more = bytes.Cut(value, []byte{','}); text.IsName(text.TrimBlanks(option), name) {
				return !slices.ContainsFunc(kept, func(k string) bool { return strings.EqualFold(k, name) })
			}
		}
	}
}
