package server

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/valyala/fasthttp"
)

// fault is a kind of request that is refused before anybody is charged for it.
// The set is closed; its reasons are label values.
type fault struct {
	reason string
	status int
	body   []byte
	count  atomic.Uint64
}

// faults of one server. A bad request is answered and its connection closed:
// after bytes that nobody understood the next ones cannot be trusted either.
type faults struct {
	malformed, framing, version, host, target, peer fault
	repeated, unnamed, batch                        fault
	headerSize, bodySize, timeout, truncated        fault
	internal                                        fault
}

func newFaults() *faults {
	f := new(faults)
	for _, d := range []struct {
		fault  *fault
		reason string
		status int
		detail string
	}{
		{&f.malformed, "malformed", http.StatusBadRequest, "The request is not valid HTTP/1.1."},
		{&f.framing, "framing", http.StatusBadRequest, "The end of the request is ambiguous: send either Content-Length or Transfer-Encoding: chunked, once, end lines with CRLF and do not fold them."},
		{&f.version, "version", http.StatusHTTPVersionNotSupported, "This server speaks HTTP/1.1 and HTTP/1.0."},
		{&f.host, "host", http.StatusBadRequest, "The host of the request is not valid."},
		{&f.target, "target", http.StatusBadRequest, "The target of the request is not valid: it is a path or an http URL, in ASCII, and percent-encoded."},
		{&f.peer, "peer", http.StatusBadRequest, "The connection has no client address."},
		{&f.batch, "batch", http.StatusBadRequest, "The batch cannot be decided."},
		{&f.repeated, "repeated", http.StatusBadRequest, "A header or a cookie that requests are counted by came more than once."},
		{&f.unnamed, "unnamed", http.StatusBadRequest, "The proxy did not name the client, or not the original request."},
		{&f.headerSize, "header_size", http.StatusRequestHeaderFieldsTooLarge, "The request line and headers are too long."},
		{&f.bodySize, "body_size", http.StatusRequestEntityTooLarge, "The request body is too long. A decision needs none."},
		{&f.timeout, "timeout", http.StatusRequestTimeout, "The request did not arrive in time."},
		{&f.truncated, "truncated", http.StatusBadRequest, "The request ended early."},
		{&f.internal, "panic", http.StatusInternalServerError, "The request could not be handled."},
	} {
		d.fault.reason, d.fault.status = d.reason, d.status
		d.fault.body = denial.Problem(d.status, d.detail)
	}
	return f
}

// all ends with the fault that is our own.
func (f *faults) all() []*fault {
	return []*fault{
		&f.malformed, &f.framing, &f.version, &f.host, &f.target, &f.peer,
		&f.repeated, &f.unnamed, &f.batch, &f.headerSize, &f.bodySize, &f.timeout, &f.truncated, &f.internal,
	}
}

// refused is the fault for which the policy refuses a request.
func (f *faults) refused(why policy.Refusal) *fault {
	return [...]*fault{
		policy.NotRefused: nil, policy.RefusedPeer: &f.peer, policy.RefusedTarget: &f.target,
		policy.RefusedUnnamed: &f.unnamed, policy.RefusedHost: &f.host, policy.RefusedRepeated: &f.repeated,
	}[why]
}

// requests are the faults of requests: all but our own.
func (f *faults) requests() []*fault {
	all := f.all()
	return all[:len(all)-1]
}

// of tells which fault an error of fasthttp's parser is.
func (f *faults) of(err error) *fault {
	var small *fasthttp.ErrSmallBuffer
	var netErr net.Error
	var breach *violation
	switch {
	case errors.As(err, &breach):
		if breach.ambiguous {
			return &f.framing
		}
	case errors.As(err, &small):
		return &f.headerSize
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		return &f.bodySize
	case errors.As(err, &netErr) && netErr.Timeout():
		return &f.timeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return &f.truncated
	case errors.Is(err, fasthttp.ErrDuplicateContentLength), errors.Is(err, fasthttp.ErrUnsupportedTransferEncoding):
		return &f.framing
	case errors.Is(err, fasthttp.ErrorInvalidURI):
		return &f.target
	}
	return &f.malformed
}

// refuse counts the fault, answers with it and closes the connection.
func (k *fault) refuse(ctx *fasthttp.RequestCtx) {
	k.count.Add(1)
	ctx.SetStatusCode(k.status)
	ctx.Response.Header.SetContentType(denial.ProblemMediaType)
	ctx.Response.SetBodyRaw(k.body)
	leaveUnread(ctx)
}
