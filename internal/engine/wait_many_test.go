package engine

import (
	"context"
	"encoding/binary"
	"math"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

// held is the memory of n goroutines that wait, stacks included.
func held(t *testing.T, n int, waiting func() int64, wait func(i int)) (bytes int64, gone func()) {
	t.Helper()
	measure := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	var wg sync.WaitGroup
	before := measure()
	for i := range n {
		wg.Go(func() {
			deep()
			wait(i)
		})
	}
	for waiting() < int64(n) {
		time.Sleep(time.Millisecond)
	}
	return measure() - before, wg.Wait
}

// deep has the stack grow to what servers have at least when they decide on a request.
//
//go:noinline
func deep() byte {
	var frame [2 << 10]byte
	return frame[len(os.Args)%len(frame)]
}

// 10,000 wait, at little more memory than goroutines take that did not have to; nobody starts
// goroutines for them; and all are let go at once. Not parallel: it counts all memory.
func TestManyWaiters(t *testing.T) {
	const n = 10_000
	rule := waitRule("a", 1, 1, time.Hour)
	rule.Rate.Per = time.Minute
	lim := waiting(t, Config{Rules: []limit.RuleConfig{rule}})
	r, ctx := lim.rules[0], t.Context()
	key := func(i int) Key { return r.BytesKey(binary.BigEndian.AppendUint64(nil, uint64(i)/10)) }
	for i := range n / 10 {
		r.Take(ctx, key(10*i), 1)
	}
	var bare int64
	for range 2 { // Go keeps what goroutines are made of, so the first time counts more
		var idle atomic.Int64
		release := make(chan struct{})
		held, gone := held(t, n, idle.Load, func(i int) {
			r.Take(ctx, key(i), 1)
			idle.Add(1)
			<-release
		})
		bare = held
		close(release)
		gone()
	}
	goroutines := runtime.NumGoroutine()
	var denied atomic.Int64
	var gone func()
	each := int64(math.MaxInt64)
	for attempt := 1; ; attempt++ { // what tests before have left may come into the first
		ctx, leave := context.WithCancel(ctx)
		defer leave()
		var full int64
		full, gone = held(t, n, func() int64 { return r.Stats().Waits.Waiting }, func(i int) {
			if d := r.Wait(ctx, key(i), 1); !d.Allowed {
				denied.Add(1)
			}
		})
		if each = min(each, (full-bare)/n); each <= limit.WaiterBytes || attempt == 3 {
			break
		}
		leave()
		gone()
		denied.Store(0)
	}
	if most := goroutines + n; runtime.NumGoroutine() > most {
		t.Errorf("%d goroutines, want no more than %d: those of the callers", runtime.NumGoroutine(), most)
	}
	if each > limit.WaiterBytes {
		t.Errorf("each takes %d bytes, want at most %d", each, limit.WaiterBytes)
	} else {
		t.Logf("each takes %d bytes", each)
	}
	if d := r.Wait(ctx, key(n), 1); !d.Allowed {
		t.Error("one that need not wait is denied where all places are taken")
	}
	if d := r.Wait(ctx, key(n), 1); d.Allowed || r.Stats().Waits.Refused == 0 {
		t.Errorf("%+v without a place", d)
	}
	lim.StopWaiting()
	gone()
	if s := r.Stats().Waits; denied.Load() != n || s.Waiting != 0 || s.Denied != n || lim.waiters.Slots() != 0 {
		t.Errorf("%d denied, %+v", denied.Load(), s)
	}
	if !r.queues.Empty() {
		t.Error("a line is left over")
	}
	runtime.KeepAlive(lim)
}

// Callers on all cores come, wait and leave in real time: every slot is given up, each call counts once, and
// no more is admitted than leaks.
func TestWaitConcurrently(t *testing.T) {
	t.Parallel()
	rule := waitRule("a", 1000, 2, 20*time.Millisecond)
	lim := waiting(t, Config{Rules: []limit.RuleConfig{rule, waitRule("b", 2000, 1, 10*time.Millisecond)}, Wait: limit.WaitLimits{PerKey: 20, Total: 50}})
	a, b := lim.rules[0], lim.rules[1]
	const callers, calls = 16, 100
	var wg sync.WaitGroup
	var admitted [4]atomic.Int64
	start := time.Now()
	for i := range callers {
		wg.Go(func() {
			k := []byte{byte(i % 4)}
			for j := range calls {
				ctx, cancel := context.WithCancel(t.Context())
				if j%3 == 0 {
					time.AfterFunc(time.Duration(j)*100*time.Microsecond, cancel)
				}
				if d, _ := lim.WaitAll(ctx, []Charge{{a, a.BytesKey(k), 1}, {b, b.BytesKey(k), 1}}); d.Allowed {
					admitted[i%4].Add(1)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	most := int64(time.Since(start).Seconds()*1000) + 3
	var sum int64
	for i := range admitted {
		if n := admitted[i].Load(); n == 0 || n > most {
			t.Errorf("%d admitted, want 1 to %d", n, most)
		}
		sum += admitted[i].Load()
	}
	sa, sb := a.Stats().Waits, b.Stats().Waits
	if sa.Waiting != 0 || sb.Waiting != 0 || lim.waiters.Slots() != 0 {
		t.Errorf("%+v, %+v", sa, sb)
	}
	if n := int64(b.Stats().Allowed[limit.StageExact]); n < sum { // it counts those too that the other one has denied in the end
		t.Errorf("the last rule counts %d admissions, of %d", n, sum)
	}
	if sa.Admitted+sb.Admitted == 0 {
		t.Error("nobody has waited")
	}
}

// A request that need not wait costs no memory, nor does one without a slot.
func TestWaitDoesNotAllocate(t *testing.T) {
	lim := waiting(t, Config{Rules: []limit.RuleConfig{waitRule("a", 1_000_000, 1000, time.Millisecond), waitRule("b", 1, 1, 10*time.Millisecond)}})
	a, b, ctx := lim.rules[0], lim.rules[1], context.Background()
	key := a.BytesKey([]byte("x"))
	if n := testing.AllocsPerRun(100, func() { a.Wait(ctx, key, 1) }); n > 0 {
		t.Errorf("%v allocations of one that is admitted", n)
	}
	late := b.BytesKey([]byte("y"))
	b.Allow(late)
	if n := testing.AllocsPerRun(100, func() { b.Wait(ctx, late, 1) }); n > 0 || b.Stats().Waits != (limit.WaitStats{}) {
		t.Errorf("%v allocations of one that would wait too long", n)
	}
	charges := []Charge{{a, key, 1}, {b, b.BytesKey([]byte("x")), 2}}
	if n := testing.AllocsPerRun(100, func() { lim.WaitAll(ctx, charges) }); n > 0 {
		t.Errorf("%v allocations of one that never fits", n)
	}
}
