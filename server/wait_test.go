package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

// waitRule lets requests of an address wait for an hour, one unit a minute, and burst at once.
// So nobody's turn comes by time in a test.
func waitRule(burst uint64) policy.Settings {
	set := perIP()
	l := &set.Rules[0].Limit
	l.Rate.Per, l.Burst, l.MaxWait = time.Minute, burst, time.Hour
	return set
}

// waits are the counters of those who wait, by the rule of waitRule.
func (r *running) waits() fastlimit.WaitStats { return r.decide.RuleStats()[0].Waits }

// waiting waits until so many wait.
func (r *running) waiting(t *testing.T, n int64) {
	t.Helper()
	eventually(t, func() bool { return r.waits().Waiting == n })
}

// Both ways to answer: a resident takes simple, fasthttp the other.
var ways = map[string]string{
	"resident": "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
	"fasthttp": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
}

// answers returns the status codes of n answers.
func answers(t *testing.T, c net.Conn, n int) (codes []int, last *http.Response) {
	t.Helper()
	br := bufio.NewReader(c)
	for range n {
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatalf("after %v: %v", codes, err)
		}
		readAll(t, resp)
		codes, last = append(codes, resp.StatusCode), resp
	}
	return codes, last
}

// A client that leaves gives up its slot: by a FIN, by a reset, and if its FIN came with the request. Answers
// to earlier requests are sent before the wait; one that only half-closes reads its denial; what it has sent
// behind is answered too.
func TestWaitingClientLeaves(t *testing.T) {
	t.Parallel()
	for name, request := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, waitRule(1))
			wait := func(stream string) net.Conn {
				c := dial(t, s.addr)
				io.WriteString(c, stream)
				return c
			}
			first := wait(request)
			defer first.Close()
			if codes, _ := answers(t, first, 1); codes[0] != 200 {
				t.Fatal(codes)
			}
			io.WriteString(first, request)
			s.waiting(t, 1)
			fin, reset := wait(request), wait(request)
			s.waiting(t, 3)
			fin.Close()
			s.waiting(t, 2)
			reset.(*net.TCPConn).SetLinger(0)
			reset.Close()
			s.waiting(t, 1)
			half := wait(request + request) // the second is decided, not lost
			defer half.Close()
			s.waiting(t, 2)
			half.(*net.TCPConn).CloseWrite()
			codes, last := answers(t, half, 2)
			if fmt.Sprint(codes) != "[429 429]" || last.Header.Get("Retry-After") == "" {
				t.Errorf("half-closed: %v, %v", codes, last.Header)
			}
			if b, err := io.ReadAll(half); len(b) > 0 || err != nil {
				t.Errorf("then %q, %v", b, err)
			}
			early := wait(request)
			early.(*net.TCPConn).CloseWrite()
			if codes, _ := answers(t, early, 1); codes[0] != 429 {
				t.Errorf("the FIN came with the request: %v", codes)
			}
			early.Close()
			if w := s.waits(); w != (fastlimit.WaitStats{Waiting: 1, Left: w.Left}) || w.Left < 4 || w.Left > 5 {
				t.Errorf("%+v, want 4 or 5 who left", w)
			}
			first.Close()
			s.waiting(t, 0)
			eventually(t, func() bool { return s.conns.Open() == 0 })
		})
	}
}

// A waiting request is neither idle nor slow: no timeout ends it, however short. Its turn comes, it is
// admitted, and the connection continues with what was sent behind it.
func TestWaitOutlastsTimeouts(t *testing.T) {
	t.Parallel()
	for name, request := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := waitRule(1)
			set.Rules[0].Limit.Rate.Per = time.Second
			s := start(t, set, func(c *Config) {
				c.Connections.WriteTimeout, c.Connections.IdleTimeout, c.Connections.HeaderTimeout = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
			})
			c := dial(t, s.addr)
			defer c.Close()
			begin := time.Now()
			io.WriteString(c, strings.Repeat(request, 3))
			codes, last := answers(t, c, 3)
			if took := time.Since(begin); fmt.Sprint(codes) != "[200 200 200]" || took < 2*time.Second {
				t.Errorf("%v after %v, want 2 s", codes, took)
			}
			if date, err := http.ParseTime(last.Header.Get("Date")); name == "resident" && (err != nil || date.Before(begin.Add(time.Second).Truncate(time.Second))) {
				t.Errorf("Date %v, asked at %v: it is of the answer", date, begin)
			}
			if w := s.waits(); w != (fastlimit.WaitStats{Admitted: 2}) {
				t.Errorf("%+v", w)
			}
		})
	}
}

// The answers before a request that waits do not wait with it.
func TestAnswersBeforeAWait(t *testing.T) {
	t.Parallel()
	s := start(t, waitRule(3))
	c := dial(t, s.addr)
	defer c.Close()
	io.WriteString(c, strings.Repeat(ways["resident"], 5))
	if codes, _ := answers(t, c, 3); fmt.Sprint(codes) != "[200 200 200]" {
		t.Error(codes)
	}
	s.waiting(t, 1) // the fifth waits for the fourth: one request at a time is handled
	c.Close()
	s.waiting(t, 0)
	if w := s.waits(); w.Admitted != 0 || w.Left == 0 {
		t.Errorf("%+v", w)
	}
}

// A drain lets all go who wait: denied, with an answer that closes the connection.
func TestDrainLetsWaitersGo(t *testing.T) {
	t.Parallel()
	s := start(t, waitRule(1), func(c *Config) { c.Drain.Timeout = time.Hour })
	var all []net.Conn
	for i := range 4 {
		c := dial(t, s.addr)
		defer c.Close()
		io.WriteString(c, ways[[]string{"resident", "fasthttp"}[i%2]])
		all = append(all, c)
	}
	s.waiting(t, 3)
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	denied := 0
	for _, c := range all {
		codes, last := answers(t, c, 1)
		if codes[0] == 429 {
			denied++
			if !last.Close || last.Header.Get("Retry-After") == "" {
				t.Errorf("%v", last.Header)
			}
		}
	}
	if w := s.waits(); denied != 3 || w != (fastlimit.WaitStats{Denied: 3}) {
		t.Errorf("%d denied, %+v", denied, w)
	}
}

// Where connections run short, waiting requests make room before idle connections: their clients exceed a
// limit. The latest one goes first, and gets an answer.
func TestWaiterMakesRoom(t *testing.T) {
	t.Parallel()
	set := waitRule(2)
	s := start(t, set, func(c *Config) {
		c.Connections.Max, c.Connections.WriteTimeout = 3, 8*50*time.Millisecond // a tick takes an eighth
	})
	idle := dial(t, s.addr)
	defer idle.Close()
	if codes := ask(idle); codes != 200 {
		t.Fatal(codes)
	}
	var line []net.Conn
	for i := range 2 {
		c := dial(t, s.addr)
		defer c.Close()
		if i == 0 {
			io.WriteString(c, ways["resident"]) // the last of the burst
			answers(t, c, 1)
		}
		io.WriteString(c, ways["resident"])
		s.waiting(t, int64(i+1))
		line = append(line, c)
		time.Sleep(10 * 50 * time.Millisecond) // in another tick than the next
	}
	fresh := dialFrom(t, "127.0.0.2", s.addr)
	if code := ask(fresh); code != 200 {
		t.Errorf("a new client: %d", code)
	}
	if codes, last := answers(t, line[1], 1); codes[0] != 429 || !last.Close {
		t.Errorf("who came last: %v", codes)
	}
	s.waiting(t, 1)
	if w := s.waits(); w != (fastlimit.WaitStats{Waiting: 1, Left: 1}) || s.conns.Dismissed()["full"] != 1 {
		t.Errorf("%+v, %v", w, s.conns.Dismissed())
	}
	if _, err := idle.Write([]byte("x")); err != nil {
		t.Error("the idle one has gone", err)
	}
}

// Questions of a batch do not wait.
func TestBatchDoesNotWait(t *testing.T) {
	t.Parallel()
	s := start(t, waitRule(1))
	question := `{"rule":"per-ip","key":["192.0.2.1"]}`
	resp := send(t, "POST", "http://"+s.admin+"/v1/decide", `{"requests":[`+question+`,`+question+`]}`, "Content-Type", "application/json")
	if b := string(readAll(t, resp)); strings.Count(b, `"allowed":true`) != 1 || strings.Count(b, `"allowed":false`) != 1 {
		t.Error(b)
	}
	if w := s.waits(); w != (fastlimit.WaitStats{}) {
		t.Errorf("%+v", w)
	}
}
