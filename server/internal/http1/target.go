package http1

import (
	"bytes"

	"github.com/fastlimit/fastlimit/server/internal/text"
)

// ValidTarget reports whether a target is one that RFC 9112 §3.2 allows for the method. CONNECT asks for a
// tunnel, which an empty 200 would grant; PRI is never a request (RFC 9113 §11.6).
//
// Of the bytes that a URI must not have, those beyond ASCII and '#' are refused; controls and blanks end the
// target already. Quotes, braces and the like are allowed: browsers send some of them, and all readers agree
// on them.
func ValidTarget(method, target []byte) bool {
	switch string(method) {
	case "CONNECT", "PRI":
		return false
	}
	if !isASCII(target) || bytes.IndexByte(target, '#') >= 0 {
		return false
	}
	switch {
	case len(target) == 0:
		return false
	case target[0] == '/':
		return true
	case target[0] == '*':
		return len(target) == 1 && string(method) == "OPTIONS"
	}
	scheme, _, _ := bytes.Cut(target, []byte("://"))
	return text.IsName(scheme, "http") || text.IsName(scheme, "https")
}

// validAuthority reports whether a target's authority, if it has one, is a host: not empty and without user
// information, RFC 9110 §4.2.
func validAuthority(target []byte) bool {
	if target[0] == '/' || target[0] == '*' {
		return true
	}
	_, authority, _ := bytes.Cut(target, []byte("://"))
	if end := bytes.IndexAny(authority, "/?"); end >= 0 {
		authority = authority[:end]
	}
	return len(authority) > 0 && allIn(authority, &hostByte)
}
