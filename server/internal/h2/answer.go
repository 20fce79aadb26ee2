package h2

import (
	"errors"
	"net/http"

	"github.com/fastlimit/fastlimit/server/internal/http1"
)

// answer reads an answer of HTTP/1.1 as it is written, and passes it to net/http. Used by one goroutine.
type answer struct {
	w       http.ResponseWriter
	control *http.ResponseController
	isHead  bool // it answers a HEAD

	kept  []byte // of what was written: part of a head or of a line
	resp  http1.Response
	body  http1.Body
	begun bool // the head was passed on
	ended bool // and so was everything else of it
}

// errUnending means that an answer would end with its connection, which a stream cannot express.
var errUnending = errors.New("an answer without length")

func (a *answer) begin(w http.ResponseWriter, control *http.ResponseController, isHead bool) {
	*a = answer{w: w, control: control, isHead: isHead, kept: a.kept[:0]}
}

// write takes the next bytes of the answer. When it returns, complete parts have been sent; the end of the
// answer is sent when the handler returns.
func (a *answer) write(p []byte) (int, error) {
	if a.ended { // the body of an answer that has none
		return len(p), nil
	}
	data := p
	if len(a.kept) > 0 {
		a.kept = append(a.kept, p...)
		data = a.kept
	}
	rest, err := a.take(data)
	if err == nil && !a.ended {
		a.kept = append(a.kept[:0], rest...)
		if a.begun {
			err = a.control.Flush()
		}
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// take passes on complete parts, and returns the rest.
func (a *answer) take(data []byte) (rest []byte, err error) {
	for !a.begun {
		n, err := a.resp.Parse(data, a.isHead)
		if n == 0 || err != nil {
			return data, err
		}
		if err = a.takeHead(); err != nil {
			return nil, err
		}
		data = data[n:]
	}
	for !a.body.Done() {
		skip, n, err := a.body.Next(data)
		if err != nil || skip+n == 0 {
			return data, err
		}
		if n > 0 {
			if _, err = a.w.Write(data[skip : skip+n]); err != nil {
				return nil, err
			}
		}
		data = data[skip+n:]
	}
	a.ended = true
	a.setTrailers()
	return nil, nil
}

// takeHead passes a head on: the answer's, or an interim one.
func (a *answer) takeHead() error {
	switch {
	case a.resp.Status == http.StatusContinue: // net/http sends it, when the body is read
		return nil
	case a.resp.Status == http.StatusSwitchingProtocols || a.resp.Length == http1.UntilClose:
		return errUnending
	}
	h := a.w.Header()
	for lines := (http1.Lines{Rest: a.resp.Fields}); ; {
		name, value, _, ok := lines.Next()
		if !ok {
			break
		}
		if key := http.CanonicalHeaderKey(string(name)); !ofConnection(key) {
			h[key] = append(h[key], string(value))
		}
	}
	if a.resp.Status < http.StatusOK {
		a.w.WriteHeader(a.resp.Status)
		clear(h)
		return nil
	}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // prevents guessing
	}
	a.w.WriteHeader(a.resp.Status)
	a.begun = true
	a.body.Begin(a.resp.Length)
	return nil
}

// ofConnection reports the fields that HTTP/2 forbids (RFC 9113 §8.2.2).
func ofConnection(key string) bool {
	switch key {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// setTrailers has the trailers sent, announced or not.
func (a *answer) setTrailers() {
	h := a.w.Header()
	for lines := (http1.Lines{Rest: a.body.Trailers()}); ; {
		name, value, _, ok := lines.Next()
		if !ok {
			return
		}
		key := http.TrailerPrefix + http.CanonicalHeaderKey(string(name))
		h[key] = append(h[key], string(value))
	}
}
