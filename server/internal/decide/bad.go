package decide

import (
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/conn"
	"github.com/fastlimit/fastlimit/server/internal/http1"
	"github.com/fastlimit/fastlimit/server/internal/logs"
	"github.com/valyala/fasthttp"
)

// badRequest is a kind of request that is refused before it is decided on. The set is closed; its reasons are
// label values.
type badRequest struct {
	logs.Reason
	body   []byte
	spared bool // the peer is not to blame: see blame
}

// badRequests are all kinds. A bad request is answered and its connection closed: bytes that follow one that
// was not understood cannot be trusted either.
type badRequests struct {
	malformed, framing, version, host, target, peer badRequest
	repeated, unnamed, cost, batch, expectation     badRequest
	headerSize, bodySize, timeout, truncated        badRequest
	internal                                        badRequest // a panic, the only one that is our fault

	all       []*badRequest
	ofClients []*logs.Reason // all but internal
}

func newBadRequests() *badRequests {
	f := new(badRequests)
	for _, d := range []struct {
		kind   *badRequest
		reason string
		status int
		detail string
	}{
		{&f.malformed, "malformed", http.StatusBadRequest, "The request is not valid HTTP/1.1."},
		{&f.framing, "framing", http.StatusBadRequest, "The end of the request is ambiguous: send either Content-Length or Transfer-Encoding: chunked, once, end lines with CRLF and do not fold them."},
		{&f.version, "version", http.StatusHTTPVersionNotSupported, "This server speaks HTTP/1.1 and HTTP/1.0."},
		{&f.host, "host", http.StatusBadRequest, "The host of the request is not valid."},
		{&f.target, "target", http.StatusBadRequest, "The target of the request is not valid: send a path or an http URL, in ASCII and percent-encoded."},
		{&f.peer, "peer", http.StatusBadRequest, "The connection has no client address."},
		{&f.repeated, "repeated", http.StatusBadRequest, "A header or cookie that requests are counted by occurs more than once."},
		{&f.unnamed, "unnamed", http.StatusBadRequest, "The proxy did not name the client or the original request."},
		{&f.cost, "cost", http.StatusBadRequest, "The proxy sent a cost that is not valid, or is above what the limit holds."},
		{&f.batch, "batch", http.StatusBadRequest, "The batch cannot be decided."},
		{&f.expectation, "expectation", http.StatusExpectationFailed, "This server supports no expectation other than 100-continue."},
		{&f.headerSize, "header_size", http.StatusRequestHeaderFieldsTooLarge, "The request line and headers are too long."},
		{&f.bodySize, "body_size", http.StatusRequestEntityTooLarge, "The request body is too long. A decision needs no body."},
		{&f.timeout, "timeout", http.StatusRequestTimeout, "The request did not arrive in time."},
		{&f.truncated, "truncated", http.StatusBadRequest, "The request ended early."},
		{&f.internal, "panic", http.StatusInternalServerError, "The request could not be handled."},
	} {
		d.kind.Name, d.kind.Status = d.reason, d.status
		d.kind.body = denial.Problem(d.status, d.detail)
		f.all, f.ofClients = append(f.all, d.kind), append(f.ofClients, &d.kind.Reason)
	}
	f.ofClients = f.ofClients[:len(f.ofClients)-1]
	for _, b := range []*badRequest{&f.peer, &f.unnamed, &f.cost, &f.batch, &f.internal} {
		b.spared = true
	}
	return f
}

// refused returns the kind for a reason of the policy.
func (f *badRequests) refused(why policy.Refusal) *badRequest {
	return [...]*badRequest{
		policy.NotRefused: nil, policy.RefusedPeer: &f.peer, policy.RefusedTarget: &f.target,
		policy.RefusedUnnamed: &f.unnamed, policy.RefusedHost: &f.host, policy.RefusedRepeated: &f.repeated,
		policy.RefusedCost: &f.cost,
	}[why]
}

// of returns the kind of an error of fasthttp's parser.
func (f *badRequests) of(err error) *badRequest {
	var small *fasthttp.ErrSmallBuffer
	var netErr net.Error
	var message *http1.Error
	var long *HeadTooLong
	switch {
	case errors.As(err, &message):
		return f.ofMessage(message)
	case errors.As(err, &small), errors.As(err, &long):
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

// ofMessage returns the kind of an error in a message that fasthttp did not read.
func (f *badRequests) ofMessage(e *http1.Error) *badRequest {
	switch e.Kind {
	case http1.Framing:
		return &f.framing
	case http1.Version:
		return &f.version
	case http1.Host:
		return &f.host
	case http1.Target:
		return &f.target
	case http1.Expectation:
		return &f.expectation
	}
	return &f.malformed
}

// answer counts the request, answers it and closes the connection.
func (b *badRequest) answer(ctx *fasthttp.RequestCtx) {
	b.Count.Add(1)
	b.write(&ctx.Response)
	conn.LeaveUnread(ctx)
}

func (b *badRequest) write(resp *fasthttp.Response) {
	resp.SetStatusCode(b.Status)
	resp.Header.SetContentType(denial.ProblemMediaType)
	resp.SetBodyRaw(b.body)
}

// append counts the request and appends the answer, after which the connection must be closed.
func (b *badRequest) append(dst []byte) []byte {
	b.Count.Add(1)
	var resp fasthttp.Response
	b.write(&resp)
	resp.SetConnectionClose()
	resp.Header.SetContentLength(len(b.body))
	dst = append(dst, resp.Header.AppendBytes(nil)...)
	return append(dst, b.body...)
}
