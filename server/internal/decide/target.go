package decide

import (
	"bytes"

	"github.com/fastlimit/fastlimit/server/internal/http1"
	"github.com/valyala/fasthttp"
)

// knownVersion reports whether the request is HTTP/1.1 or HTTP/1.0. fasthttp accepts any version, even the
// preface of HTTP/2.
func knownVersion(h *fasthttp.RequestHeader) bool {
	switch string(h.Protocol()) {
	case "HTTP/1.1", "HTTP/1.0":
		return true
	}
	return false
}

// plainTarget reports whether a target is valid, and of a form that fasthttp's URL parser also accepts: a
// path without "://".
func plainTarget(method, target []byte) bool {
	return len(target) > 0 && target[0] == '/' && http1.ValidTarget(method, target) && !bytes.Contains(target, []byte("://"))
}
