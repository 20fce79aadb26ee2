package policy

import (
	"bytes"
	"math/bits"

	"github.com/fastlimit/fastlimit/internal/ascii"
)

// reading is a set of habits in which servers differ when they read a path. [AppendPath]
// has none of them. docs/proxy.md lists which server has which.
type reading uint8

const (
	encodedSlash reading = 1 << iota // an escaped slash separates segments
	backslash                        // a backslash separates segments
	servlet                          // a segment ends at its first semicolon; final dots leave no slash
	trailingDots                     // dots and spaces at the end of a segment are dropped
	overlongUTF8                     // two bytes of UTF-8 that encode ASCII are read as ASCII
	dotsFirst                        // dots are resolved before slashes are merged, so two dots may undo a slash
	unresolved                       // dots are not resolved and slashes not merged; with dotsFirst dots are resolved
	authority                        // what follows two slashes at the start names a host, as in a URL

	order = dotsFirst | unresolved
	// Keys have the reading without these, in which most spellings of a path are the same.
	rare = order | authority
)

// maxHabits is the maximum number of habits that may affect a path. It is read in all
// combinations, up to 8. No honest client needs more, and each costs a walk over the path.
const maxHabits = 3

// readPath sets the path of r, and its other readings if servers differ on it. They are
// slices of target, or valid until the next call.
func (s *Scratch) readPath(target []byte, r *Request) (ok bool) {
	r.Path, r.others, r.loose = nil, nil, nil
	if len(target) > 0 && target[0] == '/' {
		if n := plainPrefix(target); n == len(target) || target[n] == '?' {
			r.Path = target[:n]
			return true
		}
	}
	var matter reading
	if s.path, matter, ok = appendReading(s.path[:0], target, 0); !ok {
		return false
	}
	if matter == 0 {
		r.Path = s.path
		return true
	}
	// With each habit more may matter, such as dots that an escaped slash sets apart.
	for more := matter; ; {
		if bits.OnesCount8(uint8(more)) > maxHabits {
			return false
		}
		if matter, more = more, s.readAll(target, more, r); more == matter {
			return true
		}
	}
}

// readAll reads the path, which is well formed, by all combinations of the habits that
// matter to it. It returns the habits that matter then.
func (s *Scratch) readAll(target []byte, matter reading, r *Request) (more reading) {
	var ends [1 << maxHabits]int
	n := 0
	s.path = s.path[:0]
	for as := range matter + 1 {
		if as&^matter != 0 {
			continue
		}
		var seen reading
		s.path, seen, _ = appendReading(s.path, target, as)
		more |= seen
		ends[n] = len(s.path)
		n++
	}
	s.others, r.Path, r.loose = s.others[:0], s.path[:ends[0]], s.path[:ends[0]]
	last := n>>bits.OnesCount8(uint8(matter&rare)) - 1 // these are the highest bits
	for i := 1; i < n; i++ {
		other := s.path[ends[i-1]:ends[i]]
		if i == last {
			r.loose = other
		}
		if !bytes.Equal(other, r.Path) {
			s.others = append(s.others, other)
		}
	}
	r.others = s.others
	return more | matter
}

// appendReading is [AppendPath] for a server with these habits. It returns the habits that
// would have made a difference on their own.
func appendReading(dst, target []byte, as reading) (path []byte, matter reading, ok bool) {
	_, raw, ok := splitTarget(target)
	if !ok {
		return dst, 0, false
	}
	p := pathReader{dst: dst, root: len(dst), as: as}
	raw = raw[p.host(raw):]
	n := plainPrefix(raw)
	p.dst = append(p.dst, raw[:n]...)
	if n == 0 {
		if p.dst = append(p.dst, '/'); len(raw) > 0 && p.slash(raw[0]) {
			n = 1
		}
	}
	p.segment = p.root + bytes.LastIndexByte(p.dst[p.root:], '/') + 1
	for i := n; i < len(raw); {
		if raw[i] == '?' || raw[i] == '#' {
			break
		}
		c, width, escaped := p.next(raw[i:])
		if c == 0 {
			return dst, 0, false
		}
		i += width
		switch {
		case c == '/' && !escaped, p.separates(c, escaped):
			p.separate()
		case c == '/':
			p.dst = append(p.dst, "%2f"...)
		case c == ';' && !escaped && p.has(servlet):
			i += p.param(raw[i:])
		default:
			p.dst = append(p.dst, c)
		}
	}
	if p.end(true); as&order == dotsFirst {
		p.merge()
	}
	return p.dst, p.matter, true
}

// pathReader is a path that is being read.
type pathReader struct {
	dst        []byte
	root       int // index of the root's slash
	segment    int // start of the current segment
	as, matter reading
	emptied    bool // there was an empty segment
	dotted     bool // a segment of dots was resolved
}

// has records that a habit matters, and reports whether the server has it.
func (p *pathReader) has(habit reading) bool {
	p.matter |= habit
	return p.as&habit != 0
}

// host returns the length of the part at the start of raw that names a host.
func (p *pathReader) host(raw []byte) (n int) {
	for n < len(raw) && p.slash(raw[n]) {
		n++
	}
	if n < 2 || !p.has(authority) {
		return 0
	}
	for n < len(raw) && !p.slash(raw[n]) && raw[n] != '?' && raw[n] != '#' {
		n++
	}
	return n
}

// slash reports whether a byte that was not escaped is a slash.
func (p *pathReader) slash(c byte) bool { return c == '/' || c == '\\' && p.has(backslash) }

// next returns the first byte of raw, decoded, and how many bytes of raw that takes. It
// returns 0 for a malformed escape, and for a NUL.
func (p *pathReader) next(raw []byte) (c byte, width int, escaped bool) {
	c, width = octet(raw)
	if c != 0xc0 && c != 0xc1 || len(raw) == width {
		return c, width, width > 1
	}
	low, more := octet(raw[width:])
	long := c<<6 | low&0x3f
	if low&0xc0 == 0x80 && (long == 0 || p.has(overlongUTF8)) { // a NUL is refused whichever server reads it
		return long, width + more, true
	}
	return c, width, width > 1
}

// octet returns the first byte of raw, decoded if it is an escape, or 0 if that is
// malformed.
func octet(raw []byte) (c byte, width int) {
	if raw[0] != '%' {
		return raw[0], 1
	}
	if len(raw) < 3 {
		return 0, 1
	}
	hi, lo := ascii.Hex(raw[1]), ascii.Hex(raw[2])
	if hi < 0 || lo < 0 {
		return 0, 1
	}
	return byte(hi<<4 | lo), 3
}

// separates reports whether a byte other than a plain slash separates segments.
func (p *pathReader) separates(c byte, escaped bool) bool {
	return c == '/' && escaped && p.has(encodedSlash) || c == '\\' && p.has(backslash)
}

// param returns the length of the part before the next slash in raw. Other separators in it
// are handled later.
func (p *pathReader) param(raw []byte) (n int) {
	for n < len(raw) && raw[n] != '?' && raw[n] != '#' && raw[n] != '/' {
		c, width, _ := p.next(raw[n:])
		if c == 0 {
			break // a malformed escape is for the caller
		}
		n += width
	}
	return n
}

// separate ends a segment and begins the next.
func (p *pathReader) separate() {
	empty := len(p.dst) == p.segment
	p.end(false)
	p.emptied = p.emptied || empty
	p.note()
	if p.dst[len(p.dst)-1] != '/' || empty && (p.has(unresolved) || p.as&dotsFirst != 0) {
		p.dst = append(p.dst, '/')
	}
	p.segment = len(p.dst)
}

// merge merges slashes.
func (p *pathReader) merge() {
	merged := p.dst[:p.root]
	for i, c := range p.dst[p.root:] {
		if c != '/' || i == 0 || merged[len(merged)-1] != '/' {
			merged = append(merged, c)
		}
	}
	p.dst = merged
}

// end is called at the end of a segment. It removes a dot segment and, for "..", the
// segment before it. dst[segment-1] is a slash. Servers that drop trailing dots do so
// before dots are resolved at the end of the path.
func (p *pathReader) end(last bool) {
	name := p.dst[p.segment:]
	if n := len(name); n > 0 && (name[n-1] == '.' || name[n-1] == ' ') && (last && n > 1 || !dots(name)) && p.has(trailingDots) {
		if name = bytes.TrimRight(name, " "); last || !dots(name) {
			name = bytes.TrimRight(name, ". ")
		}
		p.dst = p.dst[:p.segment+len(name)]
	}
	if !dots(name) || p.has(unresolved) && p.as&dotsFirst == 0 {
		return
	}
	p.dst = p.dst[:p.segment]
	p.dotted = true
	p.note()
	if len(name) == 2 && p.segment-1 > p.root {
		parent := p.root + bytes.LastIndexByte(p.dst[p.root:p.segment-1], '/')
		p.dst = p.dst[:parent+1]
	}
	if last && len(p.dst)-p.root > 1 && p.has(servlet) {
		p.dst = p.dst[:len(p.dst)-1]
	}
}

// note records that the order in which dots are resolved and slashes merged may matter.
func (p *pathReader) note() {
	if p.emptied && p.dotted {
		p.matter |= dotsFirst
	}
}

func dots(name []byte) bool { return string(name) == "." || string(name) == ".." }
