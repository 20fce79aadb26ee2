package planetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestFirstWorld: the program says who it is, calls fail until there are limits, and a world
// that is acknowledged is in force.
func TestFirstWorld(t *testing.T) {
	t.Parallel()
	p := newPlane(t, "127.0.0.1:0")
	r := startUp(t, p.addr, "CONFIG_GRPC_XDS_NODE_METADATA=zone=east,rack=7")
	c := r.dial()
	first := p.next()
	fields := first.GetNode().GetMetadata().GetFields()
	if first.GetNode().GetId() != node || len(fields) != 2 || fields["zone"].GetStringValue() != "east" || fields["rack"].GetStringValue() != "7" {
		t.Errorf("asked by %v", first.GetNode())
	}
	if _, err := c.ask(1, entries("user", "a")); status.Code(err) != codes.Unavailable {
		t.Errorf("without limits: %v", err)
	}
	p.put(world("shop", yearly("user", 2)), world("other", yearly("user", 9)))
	for _, want := range []int{1, 0, -1} {
		if got := c.left("user", "a"); got != want {
			t.Errorf("%d left, want %d", got, want)
		}
	}
	p.put() // no limits
	got, err := c.ask(1, entries("user", "a"))
	must(t, err)
	if s := got.GetStatuses()[0]; s.GetCurrentLimit() != nil {
		t.Errorf("limited by an empty world: %v", s)
	}
	p.put(world("shop", yearly("user", 10)))
	if got := c.left("user", "a"); got != 6 {
		t.Errorf("%d left of a limit that came back, want 6: counts stay", got)
	}
}

// flood is what several clients call while worlds change.
type flood struct {
	users []string
	hits  []atomic.Int64 // of each user
	calls atomic.Int64
	stop  atomic.Bool
}

// Limits of the changing worlds: the one of a path is always above the one of a user, by apart.
const (
	enough = 10_000_000
	apart  = 1000
)

// TestChangesInAFlood: while calls go on, worlds change. No call fails, and none is counted
// twice or not at all. The limits of a call are those of one world, and never of one before
// the world that answered the call before.
func TestChangesInAFlood(t *testing.T) {
	t.Parallel()
	const changes = 30
	p := newPlane(t, "127.0.0.1:0")
	r := startUp(t, p.addr)
	at := func(n int) {
		p.put(world("shop", yearly("user", enough+n), yearly("path", enough+apart+n), yearly(fmt.Sprint("once", n), 1)), world(fmt.Sprint("shop", n%3)))
	}
	at(0)
	f := &flood{users: []string{"a", "b", "c", "d", "e"}}
	f.hits = make([]atomic.Int64, len(f.users))
	var callers sync.WaitGroup
	for range 4 {
		c := r.dial()
		for range 4 {
			callers.Go(func() { f.call(c) })
		}
	}
	c, each := r.dial(), testkit.Size[int64](200, 20_000)
	for n := 1; n <= changes; n++ {
		before := f.calls.Load()
		testkit.Eventually(t, "more calls", func() bool { return t.Failed() || f.calls.Load() >= before+each })
		at(n)
		if got := c.left(fmt.Sprint("once", n), "x"); got != 0 {
			t.Errorf("%d left by world %d when it was acknowledged, want 0", got, n)
		}
	}
	f.stop.Store(true)
	callers.Wait()
	for i, user := range f.users {
		if got, want := c.left("user", user), enough+changes-int(f.hits[i].Load())-1; got != want {
			t.Errorf("user %s: %d left, want %d", user, got, want)
		}
	}
	total := 0
	for i := range f.hits {
		total += int(f.hits[i].Load())
	}
	if got, want := c.left("path", "/"), enough+apart+changes-total-1; got != want {
		t.Errorf("path: %d left, want %d", got, want)
	}
	t.Logf("%d calls in %d changes", f.calls.Load(), changes)
}

// call calls until the flood ends.
func (f *flood) call(c client) {
	last := uint32(0)
	for !f.stop.Load() {
		i, hits := rand.IntN(len(f.users)), 1+rand.IntN(3)
		r, err := c.ask(hits, entries("user", f.users[i]), entries("path", "/"))
		if err != nil {
			c.t.Errorf("a call failed: %v", err)
			return
		}
		f.hits[i].Add(int64(hits))
		f.calls.Add(1)
		user, path := r.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit(), r.GetStatuses()[1].GetCurrentLimit().GetRequestsPerUnit()
		if path-user != apart {
			c.t.Errorf("limits of two worlds: %d and %d", user, path)
		}
		if user < last {
			c.t.Errorf("a limit of %d after one of %d", user, last)
		}
		last = user
	}
}
