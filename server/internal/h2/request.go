package h2

import (
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/fastlimit/fastlimit/server/internal/http1"
)

// appendHead appends the head of a request in HTTP/1.1, and checks it like one that arrived that way. The
// error is an [*http1.Error], or io.ErrUnexpectedEOF for a request whose body cannot be as long as it says.
//
// net/http has refused what HTTP/2 forbids: fields of the connection, names that are not tokens, CR, LF and
// NUL in values, missing or repeated pseudo-header fields, and bodies whose length differs from
// Content-Length. If that is 0 the request has no body, and DATA that follows resets its stream.
func appendHead(dst []byte, r *http.Request) ([]byte, error) {
	dst = append(dst, r.Method...)
	dst = append(dst, ' ')
	dst = append(dst, r.RequestURI...)
	dst = append(dst, " HTTP/1.1\r\n"...)
	dst = appendField(dst, "Host", r.Host)
	for name, values := range r.Header {
		if name == "Host" && len(values) == 1 && values[0] == r.Host {
			continue
		}
		for _, v := range values {
			dst = appendField(dst, name, v)
		}
	}
	if r.ContentLength < 0 {
		dst = appendField(dst, "Transfer-Encoding", "chunked")
		if len(r.Trailer) > 0 {
			dst = appendField(dst, "Trailer", strings.Join(sortedNames(r.Trailer), ", "))
		}
	}
	dst = append(dst, "\r\n"...)

	var req http1.Request
	n, err := req.Parse(dst)
	switch {
	case err != nil:
		return dst, err
	case r.RequestURI[0] != '/' && r.RequestURI[0] != '*': // an authority in the path, in addition to the other one
		return dst, http1.ErrTarget
	case n != len(dst): // it is one head, and all of it
		return dst, http1.ErrFieldName
	case req.Length >= 0 && req.Length != max(0, r.ContentLength):
		return dst, io.ErrUnexpectedEOF
	}
	return dst, nil
}

func appendField(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

func sortedNames(h http.Header) []string {
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// appendTrailers appends the end of a chunked body. Trailers that the request has not announced are not
// known.
func appendTrailers(dst []byte, r *http.Request) []byte {
	dst = append(dst, "0\r\n"...)
	for _, name := range sortedNames(r.Trailer) {
		for _, v := range r.Trailer[name] {
			dst = appendField(dst, name, v)
		}
	}
	return append(dst, "\r\n"...)
}
