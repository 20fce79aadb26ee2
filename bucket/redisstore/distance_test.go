package redisstore

import (
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/storetest/trial"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/faultproxy"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

const tooFar = "redis is too far away for redis.timeout"

// far opens a store to a Redis that answers after delay.
func far(t *testing.T, timeout, delay time.Duration) (*Store, *faultproxy.Proxy, *testkit.Log, error) {
	t.Helper()
	server := redistest.Start(t)
	proxy := faultproxy.New(t, server.Addr, 1)
	proxy.Set(t, faultproxy.Fault{Delay: delay})
	l := new(testkit.Log)
	c := brisk(proxy.Addr(), l)
	c.Timeout = timeout
	s, err := Open(t.Context(), c)
	if s == nil {
		t.Fatal(err)
	}
	trial.CloseLater(t, s)
	return s, proxy, l, err
}

// A Redis farther away than the timeout answers, always too late. That is said at
// the start, once, with the distance and the fix, and its answers are counted.
func TestTooFar(t *testing.T) {
	t.Parallel()
	const timeout, delay = 150 * time.Millisecond, 200 * time.Millisecond // below the 750 ms of a connection
	var s *Store
	var proxy *faultproxy.Proxy
	var l *testkit.Log
	redistest.Eventually(t, "it opens: each answer comes within 750 ms unless this machine is slow", func() (opened bool) {
		var err error
		if s, proxy, l, err = far(t, timeout, delay); err != nil && classify(err) != classTimeout {
			t.Fatal(err)
		}
		return err == nil
	})
	redistest.Eventually(t, "it is measured, at the start unless this machine is slow", func() bool {
		if l.Count(tooFar) == 0 {
			take(t, s)
		}
		return l.Count(tooFar) > 0
	})
	if st := s.Stats(); st.Distance < delay || st.Timeout != timeout {
		t.Errorf("distance %v, timeout %v: Redis is %v away", st.Distance, st.Timeout, delay)
	}
	if !strings.Contains(l.String(), "no answer comes in time") {
		t.Errorf("it does not say so:\n%s", l)
	}
	take(t, s)
	if st := s.Stats(); st.Late+st.Errors["timeout"] == 0 {
		t.Errorf("no late answer: %+v", st)
	}
	if n := l.Count(tooFar); n != 1 || !strings.Contains(l.String(), "fix=\"raise redis.timeout to ") {
		t.Errorf("%d warnings:\n%s", n, l)
	}
	proxy.Set(t, faultproxy.Fault{})
	redistest.Eventually(t, "an answer of a Redis that has come near", func() bool { take(t, s); return s.Stats().Distance < delay })
}

// One so far away that connections give up first is measured too, with patience.
func TestFartherThanConnectionsWait(t *testing.T) {
	t.Parallel()
	const delay = 60 * time.Millisecond
	s, _, l, err := far(t, 5*time.Millisecond, delay)
	if classify(err) != classTimeout {
		t.Fatalf("Open: %v, want class timeout", err)
	}
	redistest.Eventually(t, "it is measured", func() bool { return s.Stats().Distance >= delay })
	redistest.Eventually(t, "a warning", func() bool { return l.Count(tooFar) == 1 })
	redistest.Eventually(t, "more probes", func() bool { return s.Stats().State == "half-open" || strings.Count(l.String(), "away") > 0 })
	if n := l.Count(tooFar); n != 1 {
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
