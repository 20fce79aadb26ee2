package queue

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// newLines are those of a rule whose units cost ten ticks.
func newLines(shards int) *Queues {
	s := new(Queues)
	s.Begin(shards, 10, new(Counts), NewWaiters())
	return s
}

func client(i uint64) sketch.Digest { return sketch.Digest{Pos: i << 8, ID: i} }

// pace is how long it takes until a tick that is ahead has leaked.
type pace time.Duration

func (p pace) Until(_ sketch.Digest, ahead, _ uint64, _ time.Duration) time.Duration {
	return time.Duration(ahead) * time.Duration(p)
}

// many are bounds that nobody meets.
var many = limit.WaitLimits{PerKey: 1 << 20, Total: 1 << 20}

// join asks for a slot of as many ticks, by a rule of the same unit.
func (s *Queues) join(d sketch.Digest, cost uint64, limits limit.WaitLimits) *Slot {
	p, _, _ := s.Join(&Request{Client: d, Cost: cost, Unit: 10, Deadline: time.Hour, Limits: limits}, pace(0))
	return p
}

// called reports whether the request has been woken since it was asked last.
func (p *Slot) called() bool {
	select {
	case <-p.Called():
		return true
	default:
		return false
	}
}

// Requests of several clients come and leave in any order: the first of each queue is the earliest, it is
// woken once when it becomes first, and sums are those of the waiting requests.
func TestTurns(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		s, waiting := newLines(1<<rng.IntN(3)), map[sketch.Digest][]*Slot{}
		leave := func(d sketch.Digest, i int) {
			q := waiting[d]
			s.Leave(q[i])
			if q = slices.Delete(q, i, i+1); i == 0 && len(q) > 0 && !q[0].called() {
				t.Fatalf("seed %d: the next was not woken", seed)
			}
			waiting[d] = q
		}
		for range 300 {
			d := client(rng.Uint64N(4))
			if q := waiting[d]; len(q) > 0 && rng.IntN(2) == 0 {
				leave(d, rng.IntN(len(q)))
			} else {
				p := s.join(d, 1+rng.Uint64N(30), many)
				if first := len(q) == 0; p.called() != first {
					t.Fatalf("seed %d: one that is behind %d others was woken: %t", seed, len(q), !first)
				}
				waiting[d] = append(q, p)
			}
			all, places := waiting[d], 0
			for _, q := range waiting {
				places += len(q)
			}
			sum := uint64(0)
			for i, p := range all {
				if sum += p.cost; p.First() != (i == 0) || p.called() {
					t.Fatalf("seed %d: place %d of %d: first: %t, or woken again", seed, i, len(all), p.First())
				}
			}
			if ticks, any := s.Ahead(d, 10); ticks != sum || any != (len(all) > 0) || s.all.Slots() != int64(places) || s.Waiting.Load() != int64(places) {
				t.Fatalf("seed %d: %d ticks ahead, want %d; %d and %d places, want %d", seed, ticks, sum, s.all.Slots(), s.Waiting.Load(), places)
			}
		}
		for d, q := range waiting {
			for range q {
				leave(d, 0)
			}
		}
		if !s.Empty() || s.all.Slots() != 0 {
			t.Errorf("seed %d: %d places are left", seed, s.all.Slots())
		}
	}
}

// Places are bounded by client and in all lines that share them; only who finds none for that
// is refused.
func TestBounds(t *testing.T) {
	t.Parallel()
	a, b := newLines(4), newLines(4)
	b.all = a.all
	bounds := limit.WaitLimits{PerKey: 2, Total: 3}
	first := a.join(client(1), 10, bounds)
	a.join(client(1), 10, bounds)
	if a.join(client(1), 10, bounds) != nil || a.Refused.Load() != 1 {
		t.Error("a third place of a client, or it was not counted")
	}
	b.join(client(1), 10, bounds)
	if b.join(client(2), 10, bounds) != nil || b.Refused.Load() != 1 {
		t.Error("a fourth place in all, or it was not counted")
	}
	p, wait, tooLong := a.Join(&Request{Client: client(1), Cost: 10, Unit: 10, Deadline: 19, Limits: bounds}, pace(1))
	if p != nil || wait != 20 || !tooLong || a.Refused.Load() != 1 {
		t.Errorf("%v, %d, %t: want to be told of a wait of 20", p, wait, tooLong)
	}
	a.Leave(first)
	if b.join(client(2), 10, bounds) == nil {
		t.Error("no place although one was given back")
	}
}

// A rule whose units cost other ticks sees as many units ahead of it, rounded up, and adds as
// many as it asks for.
func TestOtherUnits(t *testing.T) {
	t.Parallel()
	s := newLines(1)
	ask := func(cost, unit, want uint64) {
		_, wait, _ := s.Join(&Request{Client: client(1), Cost: cost, Unit: unit, Deadline: time.Hour, Limits: many}, pace(1))
		if wait != time.Duration(want) {
			t.Errorf("%d ahead in ticks of %d, want %d", wait, unit, want)
		}
	}
	ask(30, 10, 0)   // 3 units
	ask(14, 7, 21)   // 2
	ask(1, 3, 15)    // a third, which is 3⅓ ticks: 4
	ask(10, 10, 54)  // 1
	ask(1, 100, 640) // a hundredth: 1
	ask(1<<63, 1, 7) // more than fits any bucket is added as it is
	ask(1, 10, 1<<63+65)
}

// When waiting ends all are woken, and nobody gets a slot any more; those that have one give it up.
func TestStop(t *testing.T) {
	t.Parallel()
	s := newLines(2)
	p := s.join(client(1), 10, many)
	s.all.Stop()
	s.all.Stop()
	<-s.all.Stopped()
	if s.join(client(2), 10, many) != nil || s.Refused.Load() != 0 {
		t.Error("a place after the end, or it counts as taken by others")
	}
	if s.Leave(p); !s.Empty() {
		t.Error("the place was not given back")
	}
}

// WakeFirst wakes the first of each queue, and any of its slots wakes a request.
func TestWakeFirst(t *testing.T) {
	t.Parallel()
	s := newLines(2)
	var first []*Slot
	for i := range uint64(5) {
		first = append(first, s.join(client(i), 10, many))
		if !first[i].called() || s.join(client(i), 10, many).called() {
			t.Fatal("not only the first was woken when it came")
		}
	}
	other, _, _ := s.Join(&Request{Client: client(9), Cost: 10, Unit: 10, Limits: many, Other: first[4]}, pace(0))
	if !first[4].called() || other.called() {
		t.Error("a place beside another does not wake the same request, or twice")
	}
	s.WakeFirst()
	s.WakeFirst() // who has not looked yet is woken once
	for i, p := range first {
		if !p.called() || p.called() {
			t.Errorf("%d: not woken once", i)
		}
	}
}

// Callers on all cores wait to be first and leave: one per client is first at a time, and each of those that
// stay becomes first.
func TestConcurrentTurns(t *testing.T) {
	t.Parallel()
	const callers, calls = 16, 200
	s := newLines(4)
	var turns [4]atomic.Int32
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			d, turn := client(uint64(i%4)), &turns[i%4]
			for j := range calls {
				p := s.join(d, 10, many)
				ctx, cancel := context.WithCancel(t.Context())
				if j%3 == 0 {
					cancel() // it leaves, if it is not its turn by now
				}
				select {
				case <-p.Called():
					if !p.First() || turn.Add(1) != 1 {
						t.Error("woken although another one has its turn")
					}
					turn.Add(-1)
					s.Leave(p)
					s.Admitted.Add(1)
				case <-ctx.Done():
					s.Leave(p)
					s.CountDenied(ctx)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if n := s.Admitted.Load() + s.Left.Load(); n != callers*calls || s.Denied.Load() != 0 || !s.Empty() || s.all.Slots() != 0 {
		t.Errorf("%d have left their lines, want %d; %d places", n, callers*calls, s.all.Slots())
	}
}
