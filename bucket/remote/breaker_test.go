package remote

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// run carries out one batch, here.
func run(s *Store, ops ...*bucket.Op) {
	w := &worker{store: s, ops: ops}
	w.settle = w.settleOne
	w.run()
}

// trip opens the breaker.
func trip(t *testing.T, s *Store) {
	t.Helper()
	for range tripAfter {
		run(s, new(outcomes).take(t))
	}
	if !s.breaker.away.Load() {
		t.Fatal("the breaker is closed")
	}
}

// Which batches open the breaker: x fails, X does so after a second and a half, s is
// slow, - is as slow as may be, _ is half a second of nothing.
func TestBreakerOpens(t *testing.T) {
	t.Parallel()
	for batches, open := range map[string]bool{
		"xxxx":                        false,
		"xxxxx":                       true,
		"sssss":                       true,
		"xsxsx":                       true,
		strings.Repeat("-", 50):       false,
		"xxxx." + "xxxx.":             false,
		strings.Repeat(".x", 9) + ".": false,
		strings.Repeat(".x", 10):      true, // half of 20
		strings.Repeat("..x", 30):     false,
		strings.Repeat(".x.x.x_", 20): false, // half, but few within a second
		"LLLL":                        false,
		"LLLLL":                       true,
		"x_x_x_x_x":                   true,
		"x_x_x_x_._x":                 false,
	} {
		synctest.Test(t, func(t *testing.T) {
			m, next := newMemory(), byte('.')
			m.exec = func([]*bucket.Op) error {
				switch next {
				case 'L': // fails late
					time.Sleep(1500 * time.Millisecond)
					return errGone
				case 'x':
					return errGone
				case 's':
					time.Sleep(11 * time.Millisecond)
				case '-':
					time.Sleep(10 * time.Millisecond)
				}
				return nil
			}
			s := start(t, m, testConfig(new(logs)))
			for i, b := range []byte(batches) {
				if s.breaker.away.Load() {
					t.Fatalf("%s: open after %d", batches, i)
				}
				if next = b; b == '_' {
					time.Sleep(time.Second / 2)
					continue
				}
				run(s, new(outcomes).take(t))
			}
			if got := s.breaker.away.Load(); got != open {
				t.Errorf("%s: open %t, want %t", batches, got, open)
			}
		})
	}
}

// A batch is bad if half of its operations fail.
func TestHalfABatch(t *testing.T) {
	t.Parallel()
	for failing, open := range map[int]bool{0: false, 1: false, 2: true, 4: true} {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, newMemory(), testConfig(new(logs)))
			for range tripAfter {
				var batch []*bucket.Op
				for i := range 4 {
					op := new(outcomes).take(t)
					if i < failing {
						op.Algorithm = 255
					}
					batch = append(batch, op)
				}
				run(s, batch...)
			}
			if got := s.breaker.away.Load(); got != open {
				t.Errorf("%d of 4 fail: open %t, want %t", failing, got, open)
			}
		})
	}
}

// While the breaker is open nothing reaches the store but one probe at a time,
// after pauses that double; they go on where they were if the store fails again
// soon.
func TestProbes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, l := newMemory(), new(logs)
		var mu sync.Mutex // guards both
		last := time.Now()
		var pauses []time.Duration
		gone := func() error {
			mu.Lock()
			pauses = append(pauses, time.Since(last))
			mu.Unlock()
			time.Sleep(time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			last = time.Now()
			return errGone
		}
		m.probe = gone
		m.exec = func([]*bucket.Op) error {
			mu.Lock()
			defer mu.Unlock()
			last, pauses = time.Now(), nil
			return errGone
		}
		s := start(t, m, testConfig(l))
		want := func(most ...time.Duration) {
			t.Helper()
			var got []time.Duration
			for len(got) < len(most) {
				time.Sleep(time.Millisecond)
				mu.Lock()
				got = pauses
				mu.Unlock()
			}
			for i, p := range got {
				if p > most[i] || p < most[i]*3/4 {
					t.Errorf("pauses %v, want 3/4 of %v at least, and that at most", got, most)
				}
			}
		}
		const ms = time.Millisecond
		trip(t, s)
		want(100*ms, 200*ms, 400*ms, 800*ms, 1600*ms, 2000*ms, 2000*ms)
		if err := s.Submit(new(outcomes).take(t)); !errors.Is(err, bucket.ErrAway) {
			t.Errorf("Submit: %v, want ErrAway", err)
		}
		recovers := func() {
			t.Helper()
			m.probeWith(func() error { return nil })
			pass(2 * time.Second)
			if st := s.Stats(); st.State != "closed" {
				t.Fatalf("state %s", st.State)
			}
			m.probeWith(gone)
		}
		recovers()
		trip(t, s)
		want(2000 * ms)
		recovers()
		pass(20 * time.Second)
		trip(t, s)
		want(100*ms, 200*ms)
		pass(ms) // the last one takes that
		if st := s.Stats(); st.Trips != 3 || st.Errors["gone"] != 3*tripAfter+10 || st.Away != 1 {
			t.Errorf("%d trips, %v, %d refused", st.Trips, st.Errors, st.Away)
		}
		if away, back := l.count("memory is away, deciding without it"), l.count("memory is back"); away != 3 || back != 2 {
			t.Errorf("%d lines about 3 trips, %d about 2 recoveries:\n%s", away, back, l)
		}
	})
}

// What somebody has to change is probed at the longest pause from the start.
func TestMisconfiguredIsProbedRarely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		var probes atomic.Int64
		m.exec = func([]*bucket.Op) error { return errRights }
		m.probe = func() error { probes.Add(1); return errRights }
		s := start(t, m, testConfig(new(logs)))
		trip(t, s)
		if pass(1499 * time.Millisecond); probes.Load() != 0 {
			t.Errorf("%d probes within 1.5 s", probes.Load())
		}
		pass(time.Minute)
		if n := probes.Load(); n < 30 || n > 40 {
			t.Errorf("%d probes in a minute, want one in 1.5 to 2 s", n)
		}
	})
}

// A store that answers probes late is away still; a single late one may have had
// to connect. What does not answer at all is measured with more patience.
func TestSlowProbes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, l := newMemory(), new(logs)
		m.exec = func([]*bucket.Op) error { return errGone }
		m.probe = func() error { time.Sleep(11 * time.Millisecond); return nil }
		s := start(t, m, testConfig(l))
		trip(t, s)
		pass(time.Minute)
		if st := s.Stats(); st.State == "closed" || st.Distance != 11*time.Millisecond {
			t.Errorf("state %s, distance %v", st.State, st.Distance)
		}
		probes := 0
		m.probeWith(func() error {
			if probes++; probes == 1 {
				time.Sleep(time.Second)
			}
			time.Sleep(time.Millisecond)
			return nil
		})
		pass(4 * time.Second)
		if st := s.Stats(); st.State != "closed" || probes != 2 {
			t.Errorf("state %s after %d probes", st.State, probes)
		}
		m.probeWith(func() error { return s.slow })
		m.mu.Lock()
		m.trip = 70 * time.Millisecond
		m.mu.Unlock()
		pass(30 * time.Second) // what was measured before counts no more
		trip(t, s)
		pass(time.Minute)
		if st := s.Stats(); st.Distance != 70*time.Millisecond || l.count("raise memory.timeout to 350ms") != 1 {
			t.Errorf("distance %v\n%s", st.Distance, l)
		}
	})
}

// A store that is known to be away at the start is not asked, and is used as
// soon as it is back.
func TestStartsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := Start(t.Context(), m, testConfig(new(logs)), errGone)
		defer func() { _ = s.Close(t.Context()) }()
		var o outcomes
		if err := s.Submit(o.take(t)); !errors.Is(err, bucket.ErrAway) || s.Stats().Trips != 1 {
			t.Errorf("Submit: %v after %d trips", err, s.Stats().Trips)
		}
		pass(101 * time.Millisecond)
		if err := s.Submit(o.take(t)); err != nil {
			t.Errorf("Submit: %v", err)
		}
		synctest.Wait()
		if o.called != 1 || len(o.errs) != 0 {
			t.Errorf("%d done, %v", o.called, o.errs)
		}
	})
}

// Close waits for a probe before it closes the driver.
func TestCloseDuringAProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, ended := newMemory(), false
		m.probe = func() error { time.Sleep(time.Second); ended = !m.closed; return errGone }
		s := Start(t.Context(), m, testConfig(new(logs)), errGone)
		pass(100 * time.Millisecond)
		if err := s.Close(t.Context()); err != nil || !ended || !m.closed {
			t.Errorf("Close: %v; the probe ended before: %t; driver closed: %t", err, ended, m.closed)
		}
	})
}

// What is in the queue when the breaker opens fails at once.
func TestOpenBreakerEmptiesTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.exec = func([]*bucket.Op) error { time.Sleep(time.Second); return errGone }
		m.probe = func() error { return errGone }
		s := start(t, m, testConfig(new(logs)))
		s.breaker.open(m.Classify(errGone))
		var o outcomes
		s.queue <- o.take(t) // as one does that was not yet away
		synctest.Wait()
		if o.called != 1 || !errors.Is(o.errs[0], bucket.ErrAway) || s.Stats().Pipelines != 0 {
			t.Errorf("%d done, %v, %d batches", o.called, o.errs, s.Stats().Pipelines)
		}
		// Half-open lets one request through, which is the prober's.
		pass(s.config.RetryMin/2 + time.Millisecond)
		if state := s.Stats().State; state != "half-open" {
			t.Fatalf("the breaker is %s", state)
		}
		s.queue <- o.take(t)
		synctest.Wait()
		if o.called != 2 || !errors.Is(o.errs[1], bucket.ErrAway) || s.Stats().Pipelines != 0 {
			t.Errorf("half-open: %d done, %v, %d batches", o.called, o.errs, s.Stats().Pipelines)
		}
	})
}

func TestAlarmIsRare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := new(logs)
		corrupt := &Error{Class: &Class{Name: "corrupt", Cause: Misconfigured}, Err: errGone, Key: strings.Repeat("k", 200)}
		c := testConfig(l)
		c.Classes = append(slices.Clone(c.Classes), corrupt.Class)
		s := start(t, newMemory(), c)
		for range 1000 {
			s.fail(errRights)
			s.fail(corrupt)
			s.fail(errGone)
		}
		if n := l.count("level=ERROR"); n != 2 || l.count("key="+strings.Repeat("k", 128)+"\n") != 1 || l.count(`fix="grant them"`) != 1 {
			t.Errorf("%d lines, want one per class:\n%s", n, l)
		}
		time.Sleep(alarmEvery)
		s.fail(errRights)
		if n := l.count("memory refuses its work: the configuration is wrong"); n != 3 || l.count("class=rights") != 2 {
			t.Errorf("%d lines after a minute, want a third:\n%s", n, l)
		}
	})
}
