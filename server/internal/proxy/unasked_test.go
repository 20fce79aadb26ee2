package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// What a server says unasked on an idle connection is not taken for the next answer.
func TestUnasked(t *testing.T) {
	t.Parallel()
	for _, unasked := range []string{poison, "H", "\x00", "\r\n", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n"} {
		said := make(chan net.Conn, 1)
		app := serveRaw(t, func(c net.Conn, n int) {
			for in := bufio.NewReader(c); ; {
				req, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX-Marker: %s\r\nX-Connection: %d\r\nContent-Length: %d\r\n\r\n%s", req.URL.Path, n, len(req.URL.Path), req.URL.Path)
				said <- c
			}
		})
		s := start(t, func(o *standOptions) { o.pool.MaxConnections = 1 }, app)
		k := &talker{t: t, addr: s.addr}
		was := k.good("/1")
		_, _ = io.WriteString(<-said, unasked)
		if is := k.good("/2"); is == was {
			t.Errorf("%q: connection %s is used again", unasked, is)
		}
		_, _ = io.WriteString(<-said, unasked)
		resp, body, err := k.ask("POST", "/3", "Content-Length: 2\r\n\r\nok")
		if err != nil || resp.StatusCode != 200 || body != "/3" {
			t.Errorf("%q: POST gets %v %q %v", unasked, resp, body, err)
		}
		if st := s.Stats(); st.Retries != 0 || st.Answers["2xx"] != 3 {
			t.Errorf("%q: %+v", unasked, st)
		}
	}
}

// A server that says nothing, or never comes to the end of a head, has its time.
func TestSilence(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{"nothing": "", "part of a head": okHead, "part of a line": "HTT", "what comes before": "HTTP/1.1 103 Early Hints\r\n\r\n"} {
		for _, method := range []string{"GET", "HEAD", "POST"} {
			t.Run(name+" "+method, func(t *testing.T) {
				t.Parallel()
				say := new(atomic.Pointer[nonsense])
				say.Store(&nonsense{answer: answer})
				s := start(t, func(o *standOptions) { o.pool.ResponseTimeout, o.pool.MaxConnections = 500*time.Millisecond, 1 }, nonsenseServer(t, say))
				k := &talker{t: t, addr: s.addr}
				resp, _, err := k.ask(method, "/say", map[bool]string{true: "Content-Length: 0\r\n"}[method == "POST"])
				if err != nil || resp.StatusCode != http.StatusGatewayTimeout || resp.Close {
					t.Fatalf("%v %v", resp, err)
				}
				st, pool := s.Stats(), s.pool.Stats().Servers[0]
				if st.Failures["timeout"] != 1 || st.Retries != 0 || pool.Failures != 1 || pool.InUse != 0 || pool.Idle != 0 {
					t.Errorf("%+v %+v", st, pool)
				}
			})
		}
	}
}
