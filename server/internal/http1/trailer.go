package http1

import (
	"bytes"
	"slices"
)

// keptOut are the fields that have a meaning only in a head, RFC 9110 §6.5.1: a receiver that merges trailers
// into the head's fields must not learn from them where a message ends, where it goes, who sent it or how to
// read it. Sorted.
var keptOut = []string{
	"age", "alt-svc", "authorization", "cache-control", "cf-connecting-ip", "client-ip", "connection", "content-encoding", "content-length",
	"content-range", "content-type", "cookie", "cookie2", "date", "expect", "expires", "fastly-client-ip", "forwarded", "host", "http2-settings",
	"if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "keep-alive", "location", "max-forwards", "pragma",
	"range", "retry-after", "set-cookie", "set-cookie2", "strict-transport-security", "te", "trailer", "transfer-encoding", "true-client-ip",
	"upgrade", "vary", "via", "www-authenticate", "x-client-ip", "x-cluster-client-ip", "x-http-method-override",
}

// keptOutPrefixes are prefixes of such fields.
var keptOutPrefixes = []string{"access-control-", "proxy-", "x-accel-", "x-forwarded", "x-original", "x-real-", "x-rewrite-", "sec-"}

// mayTrail reports whether a field may be forwarded in a trailer section. Servers that turn names into
// variables treat '_' and '.' like '-', so it does too.
func mayTrail(name []byte) bool {
	var short [32]byte // longer than any of those
	n := copy(short[:], name)
	for i, c := range short[:n] {
		switch {
		case c == '_' || c == '.':
			short[i] = '-'
		case 'A' <= c && c <= 'Z':
			short[i] = c | 0x20
		}
	}
	for _, prefix := range keptOutPrefixes {
		if bytes.HasPrefix(short[:n], []byte(prefix)) {
			return false
		}
	}
	_, found := slices.BinarySearch(keptOut, string(short[:n]))
	return !found || len(name) > len(short)
}
