package redisstore

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/testkit/faultproxy"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

const tooFar = "redis is too far away for redis.timeout"

// far opens a store to a Redis that answers after delay.
func far(t *testing.T, timeout, delay time.Duration) (*Store, *faultproxy.Proxy, *logs, error) {
	t.Helper()
	server := redistest.Start(t)
	proxy := faultproxy.New(t, server.Addr, 1)
	proxy.Set(t, faultproxy.Fault{Delay: delay})
	l := new(logs)
	c := brisk(proxy.Addr(), l)
	c.Timeout = timeout
	s, err := Open(t.Context(), c)
	if s == nil {
		t.Fatal(err)
	}
	closeLater(t, s)
	return s, proxy, l, err
}

// A Redis farther away than the timeout answers, always too late. That is said at
// the start, once, with the distance and the fix, and its answers are counted.
func TestTooFar(t *testing.T) {
	t.Parallel()
	const timeout, delay = 150 * time.Millisecond, 200 * time.Millisecond // below the 750 ms of a connection
	s, proxy, l, err := far(t, timeout, delay)
	if err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); st.Distance < delay || st.Timeout != timeout {
		t.Errorf("distance %v, timeout %v: Redis is %v away", st.Distance, st.Timeout, delay)
	}
	if !strings.Contains(l.String(), tooFar) || !strings.Contains(l.String(), "no answer comes in time") {
		t.Errorf("not a word of it at the start:\n%s", l)
	}
	take(t, s)
	if st := s.Stats(); st.Late+st.Errors["timeout"] == 0 {
		t.Errorf("no late answer: %+v", st)
	}
	if n := l.count(tooFar); n != 1 || !strings.Contains(l.String(), "fix=\"raise redis.timeout to ") {
		t.Errorf("%d warnings:\n%s", n, l)
	}
	proxy.Set(t, faultproxy.Fault{})
	redistest.Eventually(t, "a probe in time", func() bool { return s.probeFast(t.Context()) == nil })
	if d := s.Stats().Distance; d >= delay {
		t.Errorf("distance %v of a Redis that has come near", d)
	}
}

// One so far away that connections give up first is measured too, with patience.
func TestFartherThanConnectionsWait(t *testing.T) {
	t.Parallel()
	const delay = 60 * time.Millisecond
	s, _, l, err := far(t, 5*time.Millisecond, delay)
	if Classify(err) != Timeout {
		t.Fatalf("Open: %v, want class timeout", err)
	}
	redistest.Eventually(t, "it is measured", func() bool { return s.Stats().Distance >= delay })
	redistest.Eventually(t, "a warning", func() bool { return l.count(tooFar) == 1 })
	redistest.Eventually(t, "more probes", func() bool { return s.Stats().State == "half-open" || strings.Count(l.String(), "away") > 0 })
	if n := l.count(tooFar); n != 1 {
		t.Errorf("%d warnings:\n%s", n, l)
	}
}

func take(t *testing.T, s *Store) {
	t.Helper()
	shape := mustShape(t, 10, time.Second, 5)
	done := make(chan struct{})
	op := &bucket.Op{Kind: bucket.Take, Key: "a", Shape: shape, Cost: shape.Unit(), Count: 1}
	op.Done = func(*bucket.Op, bucket.Reply, error) { close(done) }
	if s.Submit(op) == nil {
		<-done
	}
}

// The shortest round trip of two windows counts; a few slow answers, and what
// failed, say nothing; the warning comes once until Redis was near again.
func TestDistance(t *testing.T) {
	t.Parallel()
	l := new(logs)
	s := &Store{config: Config{Timeout: 10 * time.Millisecond}}
	d := &s.distance
	d.log, d.target, d.timeout = slog.New(slog.NewTextHandler(l, nil)), "here", s.config.Timeout
	start := time.Now()
	for i, step := range []struct {
		at       time.Duration
		ms       float64
		want     float64
		warnings int
	}{
		{0, 6, 6, 0},
		{0, 7, 6, 0},
		{0, 8, 6, 1},
		{0, 9, 6, 1},
		{9, 2, 2, 1}, // it is near
		{11, 20, 2, 1},
		{11, 30, 2, 1},
		{12, 40, 2, 1}, // it was, in the window before
		{22, 20, 20, 1},
		{22, 20, 20, 1},
		{22, 15, 15, 2},
		{23, 15, 15, 2},
		{50, 7, 7, 2},
		{500, 6, 6, 2},
		{501, 6, 6, 2},
		{502, 6, 6, 2}, // still far
		{503, 5, 5, 2},
		{530, 5.1, 5, 2},
		{545, 6, 5.1, 2},
		{546, 7, 5.1, 2},
		{546, 7, 5.1, 3},
	} {
		d.note(time.Duration(step.ms*1e6), start.Add(step.at*time.Second))
		if got := d.rtt(); got != time.Duration(step.want*1e6) || l.count(tooFar) != step.warnings {
			t.Fatalf("step %d: distance %v, %d warnings, want %v ms and %d:\n%s", i, got, l.count(tooFar), step.want, step.warnings, l)
		}
	}
	for _, want := range []string{"round_trip=6ms timeout=10ms", "a little late", "raise redis.timeout to 30ms", "round_trip=15ms timeout=10ms", "no answer comes in time", "to 75ms"} {
		if !strings.Contains(l.String(), want) {
			t.Errorf("want %q in\n%s", want, l)
		}
	}
	before := d.rtt()
	s.answered(time.Millisecond, 7, 1) // a refusal is fast
	s.answered(11*time.Millisecond, 7, 2)
	s.answered(10*time.Millisecond, 7, 0)
	if d.rtt() != before || d.late.Load() != 5 {
		t.Errorf("distance %v after %v, %d late, want 5", d.rtt(), before, d.late.Load())
	}
}
