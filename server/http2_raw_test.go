package server

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// framer is a client of HTTP/2 that sends given frames.
type framer struct {
	*http2.Framer
	t    testing.TB
	conn net.Conn
	buf  bytes.Buffer
	enc  *hpack.Encoder
}

func newFramer(t testing.TB, raw net.Conn) *framer {
	t.Helper()
	config := insecure.Clone()
	config.NextProtos = []string{"h2"}
	c := tls.Client(raw, config)
	t.Cleanup(func() { c.Close() })
	f := &framer{Framer: http2.NewFramer(c, c), t: t, conn: c}
	f.enc = hpack.NewEncoder(&f.buf)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := f.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return f
}

// request begins a stream.
func (f *framer) request(id uint32, end bool, fields ...string) {
	f.buf.Reset()
	for i := 0; i < len(fields); i += 2 {
		_ = f.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: f.buf.Bytes(), EndHeaders: true, EndStream: end}) // the server may have closed
}

// answer waits for what becomes of a stream: a status, or how it or the connection ends.
func (f *framer) answer(id uint32) string {
	for {
		_ = f.conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
		fr, err := f.ReadFrame()
		if err != nil {
			return "closed"
		}
		switch fr := fr.(type) {
		case *http2.MetaHeadersFrame:
			if fr.StreamID == id {
				return fr.PseudoValue("status")
			}
		case *http2.RSTStreamFrame:
			if fr.StreamID == id {
				return fr.ErrCode.String()
			}
		case *http2.GoAwayFrame:
			return "GOAWAY " + fr.ErrCode.String()
		}
	}
}
