package httpbench

import (
	"bytes"
	"fmt"
	"time"

	"github.com/valyala/fasthttp"
)

// Bare is a fasthttp server that decides nothing: it gives one answer to every
// request, as if a handler had been written for it by hand. It is the command
// that [BareServer] starts, named [BareCommand].
type Bare struct {
	Upstream string `arg:"" help:"Address of the server whose answer to give."`
	Status   int    `arg:"" help:"Status that the answer must have."`
	Listen   string `arg:"" help:"Address to listen on."`
	Timeouts bool   `negatable:"" default:"true" help:"End slow and idle connections too."`
}

// Run implements the command.
func (b *Bare) Run() error {
	var answer fasthttp.Response
	if err := record(b.Upstream, b.Status, &answer); err != nil {
		return err
	}
	s := bareServer(&answer)
	if !b.Timeouts {
		s.ReadTimeout, s.WriteTimeout, s.IdleTimeout = 0, 0, 0
	}
	return s.ListenAndServe(b.Listen)
}

// record asks until the answer has the wanted status.
func record(addr string, status int, answer *fasthttp.Response) error {
	client := fasthttp.HostClient{Addr: addr, DisableHeaderNamesNormalizing: true} // RateLimit, not Ratelimit
	defer client.CloseIdleConnections()
	var request fasthttp.Request
	request.SetRequestURI("http://" + addr + "/")
	for range 1000 {
		if err := client.DoTimeout(&request, answer, time.Second); err != nil {
			return err
		}
		if answer.StatusCode() == status {
			return nil
		}
	}
	return fmt.Errorf("bench: %s never answered %d", addr, status)
}

// bareServer has the settings that the server package gives to fasthttp
// (newTraffic), except that fasthttp enforces the timeouts.
func bareServer(answer *fasthttp.Response) *fasthttp.Server {
	return &fasthttp.Server{
		Handler:                      handler(answer),
		ReadTimeout:                  5 * time.Second,
		WriteTimeout:                 10 * time.Second,
		IdleTimeout:                  time.Minute,
		ReadBufferSize:               4 << 10,
		WriteBufferSize:              2 << 10,
		MaxRequestBodySize:           1,
		StreamRequestBody:            true,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		SecureErrorLogMessage:        true,
		DisablePreParseMultipartForm: true,
	}
}

type field struct{ key, value []byte }

// handler answers as one would write it by hand: status, fields, body.
func handler(answer *fasthttp.Response) fasthttp.RequestHandler {
	status, body := answer.StatusCode(), answer.Body()
	if status == fasthttp.StatusOK && len(body) == 0 {
		return func(*fasthttp.RequestCtx) {}
	}
	var fields []field
	contentType := string(answer.Header.ContentType())
	for key, value := range answer.Header.All() {
		switch string(key) {
		case "Content-Type", "Content-Length", "Date": // written by fasthttp
		default:
			fields = append(fields, field{bytes.Clone(key), bytes.Clone(value)})
		}
	}
	return func(ctx *fasthttp.RequestCtx) {
		ctx.SetStatusCode(status)
		ctx.SetContentType(contentType)
		for i := range fields {
			ctx.Response.Header.SetCanonical(fields[i].key, fields[i].value)
		}
		ctx.Response.SetBodyRaw(body)
	}
}
