package server

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Long and short heads in one pipeline, with bodies, cut anywhere: every request
// is answered once and in order, as its length is in the path of a denial list.
func TestLongHeadsInAPipeline(t *testing.T) {
	t.Parallel()
	set := perSecond()
	set.Rules[0].Limit.Burst = 1 << 30
	s := start(t, set)
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		var text strings.Builder
		want := 0
		for range 1 + rnd.IntN(12) {
			switch rnd.IntN(4) {
			case 0:
				text.WriteString(headOf(5000+rnd.IntN(20_000), ""))
			case 1:
				n := rnd.IntN(6000)
				text.WriteString(headOf(200, fmt.Sprintf("Content-Length: %d\r\n", n)) + strings.Repeat("b", n))
			case 2:
				text.WriteString(headOf(100, "Transfer-Encoding: chunked\r\n") + "5\r\nhello\r\n0\r\n\r\n")
			default:
				text.WriteString(headOf(100+rnd.IntN(3000), ""))
			}
			want++
		}
		text.WriteString(headOf(100, "Connection: close\r\n"))
		want++
		c := dial(t, s.addr)
		rest := text.String()
		go func() {
			for len(rest) > 0 {
				n := min(1+rnd.IntN(9000), len(rest))
				if _, err := io.WriteString(c, rest[:n]); err != nil {
					return
				}
				rest = rest[n:]
			}
		}()
		br := bufio.NewReader(c)
		got := 0
		for {
			resp, err := http.ReadResponse(br, nil)
			if err != nil {
				break
			}
			if resp.StatusCode != 200 {
				t.Fatalf("seed %d: answer %d is %d", seed, got, resp.StatusCode)
			}
			got++
		}
		if got != want {
			t.Fatalf("seed %d: %d answers, want %d", seed, got, want)
		}
		c.Close()
	}
	if n := s.decide.Requests(); n.Denied != 0 || s.reason(t, "malformed") != 0 {
		t.Errorf("%v", n)
	}
}

// A long head with a body: decided once, and the connection ends, as its reader
// may have taken bytes of the next request.
func TestLongHeadWithABody(t *testing.T) {
	t.Parallel()
	s := start(t, perIP())
	all := raw(t, s.addr, headOf(9000, "Content-Length: 5000\r\n")+strings.Repeat("b", 5000)+headOf(100, ""))
	if len(all) != 1 || all[0].StatusCode != 200 || !all[0].Close {
		t.Errorf("%v", all)
	}
	if n := s.decide.Requests(); n.Allowed != 1 {
		t.Errorf("decided %v", n)
	}
}

// A long head that stalls gets an answer in time.
func TestStalledLongHead(t *testing.T) {
	t.Parallel()
	s := start(t, perIP(), func(c *Config) { c.Connections.HeaderTimeout = 300 * time.Millisecond })
	all := raw(t, s.addr, headOf(9000, "")[:6000])
	if len(all) != 1 || all[0].StatusCode != 408 {
		t.Errorf("%v", all)
	}
}

// A batch behind a long head is answered, and the connection ends, as the larger
// reader may have taken bytes of the next request.
func TestLongHeadWithABatch(t *testing.T) {
	t.Parallel()
	s := start(t, decideSettings(), func(c *Config) { c.DecideAPI = true })
	const batch = `{"requests":[{"rule":"per-ip","key":["192.0.2.7"]}]}`
	head := strings.Replace(headOf(9000, fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(batch))), "GET /p", "POST /v1/decide", 1)
	all := raw(t, s.addr, head+batch+headOf(100, ""))
	if len(all) != 1 || all[0].StatusCode != 200 || !all[0].Close || !strings.Contains(string(readAll(t, all[0])), `"allowed":true`) {
		t.Errorf("%v", all)
	}
}
