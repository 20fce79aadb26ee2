package main

import (
	"bufio"
	"bytes"
	"os"
	"time"

	"github.com/valyala/fasthttp"
)

// serveBare answers every request with what the file holds.
func serveBare(file, addr string, timeouts bool) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var answer fasthttp.Response
	if err := parseAnswer(raw, &answer); err != nil {
		return err
	}
	s := bareServer(&answer)
	if !timeouts {
		s.ReadTimeout, s.WriteTimeout, s.IdleTimeout = 0, 0, 0
	}
	return s.ListenAndServe(addr)
}

func parseAnswer(raw []byte, into *fasthttp.Response) error {
	into.Header.DisableNormalizing() // RateLimit, not Ratelimit
	return into.Read(bufio.NewReader(bytes.NewReader(raw)))
}

// bareServer has the settings of the server package, newTraffic, and lets
// fasthttp keep the timeouts.
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
