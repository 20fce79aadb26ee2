package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// trace is what happened, each with the time since its begin.
type trace struct {
	begin time.Time
	mu    sync.Mutex
	lines []string
}

func (r *trace) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf("%v ", time.Since(r.begin))+fmt.Sprintf(format, args...))
}

func (r *trace) want(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(r.lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(r.lines, "\n"), strings.Join(want, "\n"))
	}
}

// fakeFront only takes its time and adds to the trace.
type fakeFront struct {
	*trace
	name   string
	ready  func() error  // of the runner
	last   bool          // for operators: begins when the others serve
	takes  time.Duration // to drain, and again to end
	cut    int
	refuse error // of Listen
	broken error // what it fails with once it has begun
}

func (f *fakeFront) Listen() error {
	f.add("%s listens", f.name)
	return f.refuse
}

func (f *fakeFront) Close() { f.add("%s closes", f.name) }

func (f *fakeFront) Begin(fail func(error)) {
	if serving := f.ready() == nil; serving != f.last {
		f.add("%s begins out of turn", f.name)
	}
	if f.broken != nil {
		fail(f.broken)
		fail(f.broken) // does not block, though nobody waits for it
	}
}

func (f *fakeFront) Serve(ctx context.Context) {
	<-ctx.Done()
	time.Sleep(f.takes)
	f.add("%s has served", f.name)
}

func (f *fakeFront) Drain(delay, timeout time.Duration) int {
	time.Sleep(f.takes)
	f.add("%s has drained: delay %v, timeout %v", f.name, delay, timeout)
	return f.cut
}

// newRunner runs fronts; the last one is for operators.
func newRunner(tr *trace, fronts ...*fakeFront) *Runner {
	r := &Runner{
		Log: slog.New(slog.DiscardHandler), Drain: func() (delay, timeout time.Duration) { return time.Minute, time.Hour },
		Tick: func() { tr.add("tick") }, EndSecond: func() { tr.add("second") },
	}
	for _, f := range fronts {
		f.trace, f.ready = tr, r.Ready
		r.Fronts = append(r.Fronts, f)
	}
	r.Fronts, r.Last = r.Fronts[:len(fronts)-1], r.Fronts[len(fronts)-1:]
	fronts[len(fronts)-1].last = true
	tr.begin = time.Now()
	return r
}

// Fronts drain together, the operators' after them. The ticker runs meanwhile, and the last second of the log
// ends when nothing can log any more.
func TestOrderOfADrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tr trace
		r := newRunner(&tr, &fakeFront{name: "a", takes: time.Second}, &fakeFront{name: "b", takes: 2 * time.Second}, &fakeFront{name: "admin", takes: time.Millisecond})
		phase := func(want string) {
			t.Helper()
			got := fmt.Sprint(r.Ready())
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		phase("starting")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		time.Sleep(1100 * time.Millisecond)
		phase("<nil>")
		cancel()
		synctest.Wait()
		phase("draining")
		if err := <-done; err != nil {
			t.Error(err)
		}
		phase("draining")
		tr.want(t,
			"0s second",
			"1s tick", "1s second",
			"2s tick", "2s second",
			"2.1s a has drained: delay 1m0s, timeout 1h0m0s",
			"3s tick", "3s second",
			"3.1s b has drained: delay 1m0s, timeout 1h0m0s",
			"3.101s admin has drained: delay 0s, timeout 0s",
			"3.102s admin has served",
			"4.101s a has served",
			"5.101s b has served",
			"5.101s second")
	})
}

// One front that cannot continue ends the server, after a drain like any other.
func TestABrokenFrontEndsTheServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tr trace
		broken := errors.New("the socket is gone")
		r := newRunner(&tr, &fakeFront{name: "a", cut: 2}, &fakeFront{name: "b", cut: 3}, &fakeFront{name: "admin", broken: broken})
		err := r.Run(t.Context())
		want := "fastlimit/server: a listener stopped: the socket is gone\n" +
			"fastlimit/server: 5 connections were cut after a drain of 1h0m0s: raise drain.timeout to give them more time"
		if !errors.Is(err, broken) || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	})
}

// Listen binds all fronts or none, and reports all that failed.
func TestListenIsAllOrNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tr trace
		r := newRunner(&tr, &fakeFront{name: "a", refuse: errors.New("taken")}, &fakeFront{name: "b"}, &fakeFront{name: "admin", refuse: errors.New("forbidden")})
		if err := r.Listen(); err == nil || err.Error() != "forbidden\ntaken" {
			t.Errorf("got %v", err)
		}
		tr.want(t, "0s admin listens", "0s a listens", "0s b listens", "0s a closes", "0s b closes", "0s admin closes")
	})
}
