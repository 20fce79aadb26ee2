package http1

import (
	"fmt"
	"strings"
	"testing"
)

const ok = "HTTP/1.1 200 OK\r\n"

func TestResponse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		head string
		of   bool // of a HEAD
		want string
	}{
		{ok + "Content-Length: 5\r\n\r\n", false, `200 "OK" 1 5`},
		{ok + "Content-Length: 0\r\nDate: now\r\n\r\n", false, `200 "OK" 1 0 date`},
		{ok + "transfer-encoding: Chunked\r\n\r\n", false, `200 "OK" 1 -1`},
		{ok + "\r\n", false, `200 "OK" 1 -2 close`},
		{"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", false, `200 "" 1 0`},
		{"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", false, `200 "" 1 0`},
		{"HTTP/1.1 599  a\tb\xff \r\nContent-Length: 0\r\n\r\n", false, `599 " a\tb\xff " 1 0`},
		{"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n", false, `200 "OK" 0 1 close`},
		{"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n", false, `200 "OK" 0 1`},
		{ok + "Connection: x, close\r\nContent-Length: 1\r\n\r\n", false, `200 "OK" 1 1 close`},
		{ok + "Content-Length: 5\r\n\r\n", true, `200 "OK" 1 0`},
		{ok + "Transfer-Encoding: chunked\r\n\r\n", true, `200 "OK" 1 0`},
		{ok + "\r\n", true, `200 "OK" 1 0`},
		{"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", false, `304 "Not Modified" 1 0`},
		{"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", false, `304 "Not Modified" 1 0`},
		{"HTTP/1.1 204 No Content\r\n\r\n", false, `204 "No Content" 1 0`},
		{"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", false, `204 "No Content" 1 0`},
		{"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", false, `204 "No Content" 1 0 close`},
		{"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", false, `204 "No Content" 1 0 close`},
		{"HTTP/1.1 100 Continue\r\n\r\n", false, `100 "Continue" 1 0`},
		{"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n", true, `103 "Early Hints" 1 0`},
		{"HTTP/1.1 199 x\r\nContent-Length: 5\r\n\r\n", false, `199 "x" 1 0 close`},
		{"HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n", false, `205 "Reset Content" 1 0`},
		{"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", false, `101 "Switching Protocols" 1 0 upgrade`},
		{"HTTP/1.0 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade, keep-alive\r\n\r\n", false, `101 "x" 0 0`},
		{ok + "Host: a\r\nHost: a b\r\nExpect: x\r\nX-Real-IP: a\r\nDatf: x\r\nContent-Length: 1\r\n\r\n", false, `200 "OK" 1 1`},
	} {
		atEverySplit(t, c.head, func(b []byte) string {
			var r Response
			n, err := r.Parse(b, c.of)
			_, fields, _ := strings.Cut(c.head, "\r\n")
			if n > 0 && string(r.Fields) != strings.TrimSuffix(fields, "\r\n") {
				t.Errorf("%q: fields %q", c.head, r.Fields)
			}
			return summaryOf(&r, n, err)
		}, len(c.head), c.want)
	}
}

// summaryOf says everything about a response but its field lines; "" if it needs more bytes.
func summaryOf(r *Response, n int, err error) string {
	if n == 0 {
		return outcome(err)
	}
	return fmt.Sprintf("%d %q %d %d", r.Status, r.Reason, r.Minor, r.Length) +
		words(map[string]bool{" close": r.Close, " upgrade": r.Upgrade, " date": r.Date})
}

func TestBadResponse(t *testing.T) {
	t.Parallel()
	for kind, heads := range map[Kind][]string{
		Malformed: {
			"\r|\n" + ok, "\n|", " |HTTP/1.1 200 OK\r\n", "S|SH-2.0-x\r\n", "\x15|\x03\x01", "I|CY 200 OK\r\n", "h|ttp/1.1 200 OK\r\n", "HTTPS|/1.1 200 OK\r\n", "G|ET / HTTP/1.1\r\n",
			"HTTP/1.1\r\n|", "HTTP/1.1 \r\n|", "HTTP/1.1  200 OK\r\n|", "HTTP/1.1\t200 OK\r\n|", "HTTP/1.1 20 OK\r\n|", "HTTP/1.1 2000 OK\r\n|", "HTTP/1.1 +20 OK\r\n|", "HTTP/1.1 2x0 OK\r\n|",
			"HTTP/1.1 099 OK\r\n|", "HTTP/1.1 000 OK\r\n|", "HTTP/1.1 600 OK\r\n|", "HTTP/1.1 999 OK\r\n|", "HTTP/1.1 200OK\r\n|", "HTTP/1.1 200\tOK\r\n|", "HTTP/1.1 200 O\x00K\r\n|", "HTTP/1.1 200 O\rK\r\n|",
			"HTTP/1.1 200 OK\r\r\n|", "HTTP/1.1 200 \x7f\r\n|", "HTTP/1 200 OK\r\n|", "HTTP/1.10 200 OK\r\n|", "HTTP/x.1 200 OK\r\n|", "HTTP/1,1 200 OK\r\n|", "HTTP/ 1.1 200 OK\r\n|",
			ok + "X : a\r\n|", ok + "X\r\n|", ok + ": a\r\n|", ok + "X: \x00\r\n|", ok + "X: a\rb\r\n|", ok + "Content-Length: x\r\n|", ok + "Content-Length: -1\r\n|", ok + "Content-Length: 5, 5\r\n|",
			ok + "Content-Length: 1000000000000000000\r\n|", "HTTP/1.1 204 x\r\nContent-Length: x\r\n|",
		},
		Framing: {
			"HTTP/1.1 200 OK\n|", "HTTP/1.1 200 O\x00K\n|", ok + "\n|", ok + "X: a\n|", ok + " X: a\r\n|", ok + "X: a\r\n b\r\n|",
			ok + "Content-Length: 5\r\nContent-Length: 5\r\n|", ok + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n|", ok + "Transfer-Encoding: gzip\r\n|", ok + "Transfer-Encoding: gzip, chunked\r\n|",
			ok + "Transfer-Encoding: identity\r\n|", ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n|", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n|",
			"HTTP/1.1 304 x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n|",
		},
		Version: {"HTTP/2.0 200 OK\r\n|", "HTTP/1.2 200 OK\r\n|", "HTTP/0.9 200\r\n|"},
	} {
		for _, marked := range heads {
			wrong, more, _ := strings.Cut(marked, "|")
			for _, head := range []bool{false, true} {
				parse := func(b []byte) string {
					var r Response
					n, err := r.Parse(b, head)
					return summaryOf(&r, n, err)
				}
				want := parse([]byte(wrong))
				if !strings.HasPrefix(want, kind.String()+": ") {
					t.Errorf("%.300q: %q, want kind %v", marked, want, kind)
					continue
				}
				atEverySplit(t, wrong+more, parse, len(wrong), want)
			}
		}
	}
}
