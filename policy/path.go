package policy

import (
	"bytes"

	"github.com/fastlimit/fastlimit/internal/ascii"
)

// AppendPath appends the canonical path of a request target (RFC 9112,
// section 3.2) to dst, which must not overlap it. The path begins with a slash
// and holds no empty, "." or ".." segment:
//
//   - Query, fragment, and the authority of an absolute form are left out.
//     The asterisk form is the path "/".
//   - Escapes are decoded once; "%252e" becomes "%2e", which is not a dot. An
//     escaped slash separates nothing and stays, as "%2f".
//   - Then slashes are merged, then dots resolved, never above the root.
//   - All other bytes, a backslash included, stay as they are.
//
// ok is false, and nothing appended, for a malformed escape, for a NUL byte,
// escaped or not, and for a target in no form that has a path.
func AppendPath(dst, target []byte) (path []byte, ok bool) {
	_, raw, ok := splitTarget(target)
	if !ok {
		return dst, false
	}
	root := len(dst)
	n := plainPrefix(raw)
	if n == 0 {
		dst = append(dst, '/')
	}
	dst = append(dst, raw[:n]...)
	segment := root + bytes.LastIndexByte(dst[root:], '/') + 1 // where the current one begins
	for i := n; i < len(raw); i++ {
		c := raw[i]
		switch c {
		case '?', '#':
			return endSegment(dst, root, segment), true
		case 0:
			return dst[:root], false
		case '/':
			if dst = endSegment(dst, root, segment); dst[len(dst)-1] != '/' {
				dst = append(dst, '/')
			}
			segment = len(dst)
			continue
		case '%':
			if c, ok = unescape(raw[i:]); !ok {
				return dst[:root], false
			}
			i += 2
			if c == '/' {
				dst = append(dst, "%2f"...)
				continue
			}
		}
		dst = append(dst, c)
	}
	return endSegment(dst, root, segment), true
}

// plainPrefix is the length of the leading part of raw that is canonical already and
// can be copied at once, for most paths all of it (BenchmarkAppendPath). It ends before
// a slash that another slash or a dot follows, as those may have to be resolved.
func plainPrefix(raw []byte) int {
	for i, c := range raw {
		switch c {
		case 0, '%', '?', '#':
			return i
		case '/':
			if i+1 < len(raw) && (raw[i+1] == '/' || raw[i+1] == '.') {
				return i
			}
		}
	}
	return len(raw)
}

// endSegment is called at the end of the segment that begins at dst[segment]. It
// removes a dot segment and, for "..", the one before. dst[root] is the slash of the
// root, and dst[segment-1] is a slash.
func endSegment(dst []byte, root, segment int) []byte {
	switch string(dst[segment:]) {
	case ".":
		return dst[:segment]
	case "..":
		if segment-1 == root {
			return dst[:segment]
		}
		parent := root + bytes.LastIndexByte(dst[root:segment-1], '/')
		return dst[:parent+1]
	}
	return dst
}

// unescape decodes the escape that b begins with.
func unescape(b []byte) (c byte, ok bool) {
	if len(b) < 3 {
		return 0, false
	}
	hi, lo := ascii.Hex(b[1]), ascii.Hex(b[2])
	if hi < 0 || lo < 0 {
		return 0, false
	}
	c = byte(hi<<4 | lo)
	return c, c != 0
}

// splitTarget finds the authority, such as "example.com:80" of "http://example.com:80/"
// and nil unless the target is in absolute form, and the raw path up to the end of the target, which may be empty.
func splitTarget(target []byte) (authority, path []byte, ok bool) {
	if len(target) > 0 && target[0] == '/' {
		return nil, target, true
	}
	if string(target) == "*" {
		return nil, nil, true
	}
	scheme, rest, found := bytes.Cut(target, []byte("://"))
	if !found || !isScheme(scheme) {
		return nil, nil, false
	}
	end := bytes.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	if end == 0 {
		return nil, nil, false
	}
	return rest[:end], rest[end:], true
}

func isScheme(b []byte) bool {
	for i, c := range b {
		alpha := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !alpha && (i == 0 || !isAlnum(c) && c != '+' && c != '-' && c != '.') {
			return false
		}
	}
	return len(b) > 0
}
