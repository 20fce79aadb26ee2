package load

import (
	"bufio"
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// fakeServer answers over pipes, in the fake time of a bubble.
type fakeServer struct {
	t testing.TB
	// latency of the n-th request, counted from 0 over all connections. Read
	// by one connection at a time.
	latency func(n int) time.Duration
	status  func(n int) string
	n       int
}

func (f *fakeServer) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go f.serve(theirs)
	return ours, nil
}

func (f *fakeServer) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if line == "\r\n" {
				break
			}
		}
		n := f.n
		f.n++
		time.Sleep(f.latency(n))
		status := "200 OK"
		if f.status != nil {
			status = f.status(n)
		}
		if _, err := io.WriteString(conn, "HTTP/1.1 "+status+"\r\nContent-Length: 2\r\n\r\nno"); err != nil {
			return
		}
	}
}

func (f *fakeServer) target(t testing.TB) Target {
	target, err := NewTarget("http://fake.test/", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	target.dial, target.sleep = f.dial, time.Sleep
	return target
}

// atLeast counts the values recorded at d or above, within the histogram's
// resolution of 0.1 %.
func atLeast(h *hdrhistogram.Histogram, d time.Duration) (n int64) {
	for _, bar := range h.Distribution() {
		if bar.To >= int64(d) {
			n += bar.Count
		}
	}
	return n
}

// A server that takes 1 ms, and once 1 s, is asked 100 times a second over one
// connection. One request waits for 1 s; 100 more were due meanwhile, and
// would have waited from 990 ms down to nothing had they come from others. The
// time from sending shows the one; the time from when they were due all.
func TestOpenShowsCoordinatedOmission(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const stall = time.Second
		server := &fakeServer{t: t, latency: func(n int) time.Duration {
			if n == 100 {
				return stall
			}
			return time.Millisecond
		}}
		o, err := Open(t.Context(), OpenConfig{Target: server.target(t), Rate: 100, Duration: 4 * time.Second, Conns: 1})
		if err != nil {
			t.Fatal(err)
		}
		if o.Total() != 400 || o.Status(200) != 400 || o.Failed != 0 || o.Unsent != 0 {
			t.Fatalf("answers %d, allowed %d, failed %d, unsent %d: want 400, 400, 0, 0", o.Total(), o.Status(200), o.Failed, o.Unsent)
		}
		for _, c := range []struct {
			at              time.Duration
			latency, served int64
		}{
			// Request 100+k is due 10k ms into the stall and answered after
			// it, behind k others of 1 ms: it waits for 1000 - 9k ms.
			{990 * time.Millisecond, 2, 1},
			{500 * time.Millisecond, 56, 1},
			{2 * time.Millisecond, 111, 1},
			{900 * time.Microsecond, 400, 400},
		} {
			if got := atLeast(o.Latency, c.at); got != c.latency {
				t.Errorf("latency: %d values of %v or more, want %d", got, c.at, c.latency)
			}
			if got := atLeast(o.Service, c.at); got != c.served {
				t.Errorf("service time: %d values of %v or more, want %d", got, c.at, c.served)
			}
		}
		if lag := o.Lag.Max(); lag > int64(time.Microsecond) {
			t.Errorf("the generator was late by %v in fake time", time.Duration(lag))
		}
	})
}

func TestOpenIntervals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{
			t:       t,
			latency: func(int) time.Duration { return 0 },
			status: func(n int) string {
				if n >= 10 {
					return "429 Too Many Requests"
				}
				return "200 OK"
			},
		}
		o, err := Open(t.Context(), OpenConfig{Target: server.target(t), Rate: 40, Duration: 625 * time.Millisecond, Conns: 1})
		if err != nil {
			t.Fatal(err)
		}
		if want := []Interval{{10, 0}, {10, 10}, {5, 5}}; !slices.Equal(o.Intervals, want) {
			t.Fatalf("intervals %v, want %v", o.Intervals, want)
		}
		if o.Denied() != 15 || o.Status(429) != 15 {
			t.Errorf("denied %d, want 15", o.Denied())
		}
	})
}

// A server that is too slow by far does not hold the run for ever.
func TestOpenGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{t: t, latency: func(int) time.Duration { return 30 * time.Second }}
		start := time.Now()
		o, err := Open(t.Context(), OpenConfig{Target: server.target(t), Rate: 10, Duration: 10 * time.Second, Conns: 1})
		if err != nil {
			t.Fatal(err)
		}
		// It is asked at 0, 30 and 60 s; 70 s is the end.
		if took := time.Since(start); o.Total() != 3 || o.Unsent != 97 || took != 90*time.Second {
			t.Errorf("answers %d, unsent %d after %v: want 3, 97 after 1m30s", o.Total(), o.Unsent, took)
		}
	})
}

func TestOpenKeepsWhatItHasWhenCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{t: t, latency: func(int) time.Duration { return time.Millisecond }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second-time.Millisecond/2)
		defer cancel()
		o, err := Open(ctx, OpenConfig{Target: server.target(t), Rate: 100, Duration: time.Hour, Conns: 1})
		if err == nil || o.Total() != 100 {
			t.Errorf("answers %d, error %v: want 100 and the context's", o.Total(), err)
		}
	})
}

func TestOpenEndsAtNonsense(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{
			t:       t,
			latency: func(int) time.Duration { return 0 },
			status:  func(int) string { return "999 Nonsense" },
		}
		o, err := Open(t.Context(), OpenConfig{Target: server.target(t), Rate: 100, Duration: time.Hour, Conns: 2})
		if err == nil || !strings.Contains(err.Error(), "999") {
			t.Errorf("answers %d, error %v: want one that shows the status", o.Total(), err)
		}
	})
}

func TestOpenConfigValidate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]OpenConfig{
		"no rate":        {Duration: time.Second, Conns: 1},
		"negative rate":  {Rate: -1, Duration: time.Second, Conns: 1},
		"no duration":    {Rate: 1, Conns: 1},
		"no connections": {Rate: 1, Duration: time.Second},
		"too many":       {Rate: 1e9, Duration: time.Hour, Conns: 1},
		"none due":       {Rate: 1, Duration: time.Millisecond, Conns: 1},
	} {
		if c.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
