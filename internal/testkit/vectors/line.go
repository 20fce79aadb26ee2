package vectors

import (
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit"
)

// line is the calls of a vector that wait, and when they came out. It is safe for
// concurrent use.
type line struct {
	wg  sync.WaitGroup
	mu  sync.Mutex
	out []outcome // in order; guarded by mu
}

type outcome struct {
	call int
	at   time.Time
	d    fastlimit.Decision
}

// ask has a call wait, and returns when nothing moves any more.
func (l *line) ask(call int, wait func() fastlimit.Decision) {
	l.wg.Go(func() {
		d := wait()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.out = append(l.out, outcome{call, time.Now(), d})
	})
	synctest.Wait()
}

// pause is how much later than its units fit a call may be admitted by a store: a node
// does not ask it more often.
const pause = time.Millisecond

// check waits for all calls and compares what they said, when, and in what order.
func (l *line) check(w *world) {
	l.wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	var want, in []int
	for i := range w.Calls {
		c := &w.Calls[i]
		if r, _ := w.limit(c.Who); r != nil && c.Do == Wait && c.Allowed {
			want = append(want, i)
		}
	}
	slices.SortStableFunc(want, func(a, b int) int { return int(w.Calls[a].In - w.Calls[b].In) })
	most := time.Microsecond
	if w.shared {
		most = pause
	}
	for n, o := range l.out {
		c, at := &w.Calls[o.call], o.at.Sub(w.start)
		// Each of those before may have been late, or early by what a store's bucket holds more.
		turns := time.Duration(n + 1)
		if o.d.Degraded || o.d.Allowed != c.Allowed || at > c.In+most*turns || at < c.In-slack*turns {
			w.t.Errorf("call %d at %v: allowed %v at %v, want %v at %v: %+v", o.call, c.At, o.d.Allowed, at, c.Allowed, c.In, o.d)
		}
		if o.d.Allowed {
			in = append(in, o.call)
		}
	}
	if !slices.Equal(in, want) {
		w.t.Errorf("calls %v came in, in this order; want %v", in, want)
	}
}
