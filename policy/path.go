package policy

import "bytes"

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
// Servers differ on some of this. [Engine.Assemble] makes rules look at the readings of
// other servers, too.
//
// ok is false, and nothing is appended, for a malformed escape, for a NUL byte, escaped or
// not, and for a target in no form that has a path.
func AppendPath(dst, target []byte) (path []byte, ok bool) {
	path, _, ok = appendReading(dst, target, 0)
	return path, ok
}

// plainPrefix returns the length of the leading part of raw that every server reads as it
// is, so that it can be copied at once; for most paths that is all of it
// (BenchmarkAppendPath). It ends before a slash that another slash or a dot follows, as
// those may have to be resolved.
func plainPrefix(raw []byte) int {
	for i, c := range raw {
		if !marks[c] {
			continue
		}
		switch c {
		case '/':
			if i+1 < len(raw) && (raw[i+1] == '/' || raw[i+1] == '.') {
				return i
			}
		case '.', ' ':
			if i+1 == len(raw) || raw[i+1] == '/' || raw[i+1] == '?' || raw[i+1] == '#' {
				return i
			}
		default:
			return i
		}
	}
	return len(raw)
}

// marks are the bytes that make a path need a closer look.
var marks = [256]bool{0: true, '%': true, '?': true, '#': true, '\\': true, ';': true, '/': true, '.': true, ' ': true, 0xc0: true, 0xc1: true}

// splitTarget returns the authority, such as "example.com:80" of "http://example.com:80/",
// or nil unless the target is in absolute form, and the raw path up to the end of the
// target, which may be empty.
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
