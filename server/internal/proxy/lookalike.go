package proxy

import (
	"bytes"
	"slices"
	"strings"

	"github.com/fastlimit/fastlimit/server/internal/http1"
)

// Many applications cannot tell X_Api_Key from X-Api-Key: CGI, WSGI, Rack and PHP put both into
// HTTP_X_API_KEY, and servers fold other characters as well. Rules read only one of them, so a client that
// sends the other would bypass them.

// guard knows the fields that rules and framing depend on. The zero value knows none.
type guard struct {
	names   map[string][]string // by folded name: as written, in lower case
	longest int
	odd     bool // one of them is not plain, so plain fields may be its look-alikes
}

func newGuard(headers []string) guard {
	g := guard{names: map[string][]string{}}
	for _, kinds := range kinds {
		for _, k := range kinds {
			g.add(k.name)
		}
	}
	for _, name := range headers {
		g.add(strings.ToLower(name))
	}
	return g
}

func (g *guard) add(name string) {
	f := fold(name)
	if !slices.Contains(g.names[f], name) {
		g.names[f] = append(g.names[f], name)
	}
	g.longest = max(g.longest, len(name))
	g.odd = g.odd || !plain([]byte(name))
}

// lookAlike reports whether a server may confuse the field with a guarded one of another name.
func (g *guard) lookAlike(name []byte) bool {
	if !g.odd && plain(name) {
		return false
	}
	written := g.like(name)
	return len(written) > 0 && !slices.ContainsFunc(written, func(w string) bool { return strings.EqualFold(w, string(name)) })
}

// like returns the guarded fields that a server may confuse this one with.
func (g *guard) like(name []byte) (written []string) {
	if len(name) > g.longest {
		return nil
	}
	var buf [64]byte
	f := append(buf[:0], name...)
	for i, c := range f {
		f[i] = folded[c]
	}
	return g.names[string(f)]
}

// appendTrailers appends the field lines of a trailer section without guarded fields and their look-alikes:
// rules have not read them, and an application may add them to the head.
func (g *guard) appendTrailers(dst, lines []byte) []byte {
	for len(lines) > 0 {
		end := bytes.IndexByte(lines, '\n') + 1
		if len(g.like(lines[:http1.NameLength(lines)])) == 0 {
			dst = append(dst, lines[:end]...)
		}
		lines = lines[end:]
	}
	return dst
}

// same compares a name with a folded one as lenient servers do.
func same(name []byte, want string) bool {
	if len(name) != len(want) {
		return false
	}
	for i, c := range name {
		if folded[c] != want[i] {
			return false
		}
	}
	return true
}

// plain reports whether a name has only letters, digits and hyphens, so that no server confuses it with
// another.
func plain(name []byte) bool {
	for _, c := range name {
		if c != '-' && folded[c] == '-' {
			return false
		}
	}
	return true
}

// folded maps upper case to lower case, and everything but letters and digits to a hyphen.
var folded = func() (t [256]byte) {
	for i := range t {
		switch c := byte(i); {
		case 'A' <= c && c <= 'Z':
			t[i] = c | 0x20
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
			t[i] = c
		default:
			t[i] = '-'
		}
	}
	return t
}()

// fold folds a name of our own.
func fold(name string) string {
	b := []byte(name)
	for i, c := range b {
		b[i] = folded[c]
	}
	return string(b)
}
