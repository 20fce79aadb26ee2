package policy

import (
	"bytes"
	"math/bits"

	"github.com/fastlimit/fastlimit/internal/ascii"
)

// reading is a set of habits in which servers differ when they read a path. None of them is
// that of [AppendPath]. docs/proxy.md has who has which.
type reading uint8

const (
	encodedSlash reading = 1 << iota // an escaped slash separates segments
	backslash                        // a backslash does
	servlet                          // a segment ends at its first semicolon, and no slash stands for dots at the end of a path
	trailingDots                     // dots and spaces at the end of a segment are dropped
	overlongUTF8                     // two bytes of UTF-8 that stand for ASCII are that
	dotsFirst                        // dots are resolved before slashes are merged, so two dots may undo a slash
	unresolved                       // neither dots are resolved nor slashes merged; with dotsFirst dots are
	authority                        // what follows two slashes at the begin names a host, as in a URL

	order = dotsFirst | unresolved
	// Keys have the reading without these: most spellings of a path are one there.
	rare = order | authority
)

// maxHabits is how many habits a path may make a difference to. It is read in all ways, up
// to 8; no honest client needs more, and each costs a walk over the path.
const maxHabits = 3

// readPath sets the path of r, and its other readings if servers differ on it. They are parts of
// target or valid until the next call.
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
	// With each habit more may matter: dots that an escaped slash sets apart.
	for more := matter; ; {
		if bits.OnesCount8(uint8(more)) > maxHabits {
			return false
		}
		if matter, more = more, s.readAll(target, more, r); more == matter {
			return true
		}
	}
}

// readAll reads the path, which is well formed, by all habits that matter to it, in all
// combinations. It returns what else matters then.
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
	last := n>>bits.OnesCount8(uint8(matter&rare)) - 1 // they are the highest bits
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

// appendReading is [AppendPath] of a server with these habits. It returns which habits, alone,
// would have made a difference.
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
	root       int // where the slash of the root is
	segment    int // where the current segment begins
	as, matter reading
	emptied    bool // there was an empty segment
	dotted     bool // a segment of dots was resolved
}

// has notes that a habit matters, and reports whether it is one of the server's.
func (p *pathReader) has(habit reading) bool {
	p.matter |= habit
	return p.as&habit != 0
}

// host is the length of what names a host at the begin of raw.
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

// next is the byte that raw begins with, decoded, and how many bytes of raw that takes. It is 0
// for a malformed escape, and for a NUL.
func (p *pathReader) next(raw []byte) (c byte, width int, escaped bool) {
	c, width = octet(raw)
	if c != 0xc0 && c != 0xc1 || len(raw) == width {
		return c, width, width > 1
	}
	low, more := octet(raw[width:])
	long := c<<6 | low&0x3f
	if low&0xc0 == 0x80 && (long == 0 || p.has(overlongUTF8)) { // a NUL is refused whoever reads it
		return long, width + more, true
	}
	return c, width, width > 1
}

// octet decodes the escape that raw begins with, or is its first byte. It is 0 for a malformed escape.
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

// separates reports whether a byte that is no plain slash separates segments.
func (p *pathReader) separates(c byte, escaped bool) bool {
	return c == '/' && escaped && p.has(encodedSlash) || c == '\\' && p.has(backslash)
}

// param is the length of what comes before the next slash in raw, whatever else separates
// segments: that is looked at later.
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

// end is called at the end of a segment. It removes a dot segment and, for "..", the one
// before. dst[segment-1] is a slash. Who drops trailing dots does so before dots are resolved
// where the path ends.
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

// note notes that the order in which dots are resolved and slashes merged may matter.
func (p *pathReader) note() {
	if p.emptied && p.dotted {
		p.matter |= dotsFirst
	}
}

func dots(name []byte) bool { return string(name) == "." || string(name) == ".." }
