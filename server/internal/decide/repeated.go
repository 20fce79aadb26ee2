package decide

import (
	"bytes"
	"slices"
	"strings"

	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/text"
	"github.com/valyala/fasthttp"
)

// lowered are keys with the names of headers in lower case.
func lowered(keys []policy.KeyPart) []policy.KeyPart {
	keys = slices.Clone(keys)
	for i := range keys {
		if keys[i].Kind == policy.KeyHeader {
			keys[i].Name = strings.ToLower(keys[i].Name)
		}
	}
	return keys
}

// repeated reports whether a request has one of the headers or cookies twice;
// keys are [lowered]. Which one counts is up to the reader: one that takes the last would see a key
// that no rule has counted.
func repeated(h *fasthttp.RequestHeader, keys []policy.KeyPart) bool {
	for i := range keys {
		n := 0
		if keys[i].Kind == policy.KeyCookie {
			_, n = cookie(h, keys[i].Name)
		} else {
			n = count(h, keys[i].Name)
		}
		if n > 1 {
			return true
		}
	}
	return false
}

// fieldLines walks the field lines of a raw head that has passed the gate.
// The parsed header would not do: it keeps the last User-Agent only.
type fieldLines struct{ rest []byte }

// next returns the value of the next line with the name, which is in lower case.
func (l *fieldLines) next(name string) (value []byte, ok bool) {
	for len(l.rest) > len(name) {
		line, rest, _ := bytes.Cut(l.rest, []byte{'\n'})
		l.rest = rest
		if len(line) > len(name) && line[len(name)] == ':' && text.IsName(line, name) {
			return bytes.TrimSuffix(line[len(name)+1:], []byte{'\r'}), true
		}
	}
	return nil, false
}

// count is the number of headers of the name, in lower case.
func count(h *fasthttp.RequestHeader, name string) (n int) {
	lines := fieldLines{h.RawHeaders()}
	for {
		if _, ok := lines.next(name); !ok {
			return n
		}
		n++
	}
}

// cookie returns the first cookie of the name, without the quotes that it may
// have, and how many there are. It takes any value, which fasthttp does not: a
// cookie that only the upstream knew would be in no bucket.
func cookie(h *fasthttp.RequestHeader, name string) (value []byte, n int) {
	lines := fieldLines{h.RawHeaders()}
	for {
		pairs, ok := lines.next("cookie")
		if !ok {
			return value, n
		}
		for more := true; more; {
			var pair []byte
			pair, pairs, more = bytes.Cut(pairs, []byte{';'})
			k, v, ok := bytes.Cut(pair, []byte{'='})
			if !ok || string(text.TrimBlanks(k)) != name {
				continue
			}
			if n++; n == 1 {
				value = unquote(text.TrimBlanks(v))
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
