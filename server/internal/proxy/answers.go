package proxy

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/fastlimit/fastlimit/server/internal/text"
	"github.com/fastlimit/fastlimit/server/internal/upstream"
)

// failure is why an admitted request gets an answer from us. The set is closed: it is a label.
type failure uint8

const (
	failConnect  failure = iota // no server could be connected to
	failTimeout                 // no answer in time
	failClosed                  // the server closed or reset the connection
	failNonsense                // its answer is not HTTP
	failBusy                    // all connections are in use, and so is the queue
	failLoop
	failLookAlike // see lookalike.go
	failures
)

var failureNames = [failures]string{"connect", "timeout", "closed", "malformed", "busy", "loop", "look_alike"}

// failureAnswers are their answers.
var failureAnswers = [failures]struct {
	status int
	detail string
}{
	{http.StatusBadGateway, "The server behind this proxy cannot be reached."},
	{http.StatusGatewayTimeout, "The server behind this proxy did not answer in time."},
	{http.StatusBadGateway, "The server behind this proxy did not answer."},
	{http.StatusBadGateway, "The server behind this proxy gave an answer that is not valid HTTP."},
	{http.StatusServiceUnavailable, "The server behind this proxy is busy: try again in a moment."},
	{http.StatusLoopDetected, "The request has come through this proxy before."},
	{http.StatusBadRequest, "The name of a header field has characters other than letters, digits and hyphens, and looks like another one."},
}

// failed is a failure with its cause.
type failed struct {
	what  failure
	cause error
}

// failureOf classifies the errors of the pool and of its connections.
func failureOf(err error) failed {
	var dial *upstream.DialError
	var io *upstream.IOError
	switch {
	case errors.Is(err, upstream.ErrQueueFull), errors.Is(err, upstream.ErrQueueTimeout):
		return failed{failBusy, err}
	case errors.Is(err, upstream.ErrCanceled):
		return failed{failClosed, errLeft}
	case errors.As(err, &dial) && dial.Timeout, errors.As(err, &io) && io.Timeout:
		return failed{failTimeout, err}
	case errors.As(err, &io):
		return failed{failClosed, err}
	case errors.Is(err, errLoop):
		return failed{failLoop, err}
	case errors.Is(err, errLookAlike):
		return failed{failLookAlike, err}
	}
	return failed{failConnect, err}
}

// answers are the rendered answers, except for what depends on the request.
type answers [failures]struct{ head, body []byte }

func newAnswers() (all answers) {
	for i, a := range failureAnswers {
		body := denial.Problem(a.status, a.detail)
		head := []byte("HTTP/1.1 " + strconv.Itoa(a.status) + " " + http.StatusText(a.status) + "\r\n" +
			"Content-Type: " + denial.ProblemMediaType + "\r\nCache-Control: no-store\r\n")
		if a.status == http.StatusServiceUnavailable {
			head = append(head, "Retry-After: 1\r\n"...)
		}
		head = append(head, "Content-Length: "+strconv.Itoa(len(body))+"\r\n"...)
		all[i].head = head
		all[i].body = body
	}
	return all
}

// appendFailure counts and logs a failure, and appends the answer.
func (p *Proxy) appendFailure(dst []byte, f failed, head, last bool) []byte {
	p.counts.failures[f.what].Add(1)
	if p.logged.Take() {
		p.log.Warn("requests could not be forwarded", slog.String("reason", failureNames[f.what]), slog.String("error", text.Printable(f.cause.Error())))
	}
	a := &p.answers[f.what]
	dst = append(append(dst, a.head...), p.service.Date()...)
	if last {
		dst = append(dst, "Connection: close\r\n"...)
	}
	dst = append(dst, "\r\n"...)
	if head {
		return dst
	}
	return append(dst, a.body...)
}

// withoutBody removes the body of an answer to a HEAD request, which begins at out[from:].
func withoutBody(out []byte, from int) []byte {
	if end := bytes.Index(out[from:], []byte("\r\n\r\n")); end >= 0 {
		return out[:from+end+len("\r\n\r\n")]
	}
	return out
}

// counts are a proxy's counts.
type counts struct {
	answers  [6]atomic.Uint64 // by the first digit of the status; 0: none
	failures [failures]atomic.Uint64
	retries  atomic.Uint64
	broken   atomic.Uint64 // answers that ended in the middle
	left     atomic.Uint64 // requests whose client left
	tunnels  atomic.Int64  // open now
}
