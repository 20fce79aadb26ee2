package server

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/policy"
)

// While requests wait live overrides come and go, each time with another snapshot, and tiers are dropped in
// which requests wait: all are admitted by the limit that they came by, nobody loses a slot, and the counters
// of the rule have them all. Run with -race.
func TestWaitWhileSnapshotsChange(t *testing.T) {
	t.Parallel()
	set := waitRule(1)
	set.Rules[0].Limit.Rate.Per = 100 * time.Millisecond
	s := start(t, set)
	base := s.config().Limiter.Rules()[0]
	const clients, each = 6, 5
	ends := make(chan struct{})
	var swaps sync.WaitGroup
	swaps.Go(func() {
		var old *fastlimit.Rule
		for i := 0; ; i++ {
			select {
			case <-ends:
				return
			default:
			}
			made, err := (*engine.Rule)(base).NewTier(fastlimit.Tier{Rate: fastlimit.Rate{N: 20, Per: time.Second}, Burst: 1, Clients: 4})
			if err != nil {
				t.Error(err)
				return
			}
			tier := (*fastlimit.Rule)(made)
			live := []policy.LiveOverride{{Key: []string{"127.0.0.1"}, Tier: tier}, {Key: []string{"127.0.0.2"}, Tier: tier}, {Key: []string{"127.0.0.3"}}}
			e, err := s.config().Engine.WithLive(&set, live[i%3:])
			if err != nil {
				t.Error(err)
				return
			}
			s.SetEngine(e, []*fastlimit.Rule{tier})
			if old != nil {
				(*engine.Rule)(base).DropTier((*engine.Rule)(old))
			}
			old = tier
			time.Sleep(time.Millisecond)
		}
	})
	var all sync.WaitGroup
	for i := range clients {
		for way := range ways {
			all.Go(func() {
				c := dialFrom(t, "127.0.0."+string(rune('1'+i)), s.addr)
				defer c.Close()
				io.WriteString(c, strings.Repeat(ways[way], each))
				wantAll(t, c, each)
			})
		}
	}
	all.Wait()
	close(ends)
	swaps.Wait()
	if w := s.waits(); w != (fastlimit.WaitStats{Admitted: w.Admitted}) || w.Admitted < each {
		t.Errorf("%+v", w)
	}
	// By the last snapshot requests wait as well: two of three, unless the machine is slow.
	e, err := s.config().Engine.WithLive(&set, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.SetEngine(e, nil)
	before := s.waits().Admitted
	c := dialFrom(t, "127.0.0.9", s.addr)
	defer c.Close()
	for s.waits().Admitted == before && !t.Failed() {
		io.WriteString(c, strings.Repeat(ways["resident"], 3))
		if wantAll(t, c, 3); s.waits().Admitted > before+2 {
			t.Errorf("%+v, %d before", s.waits(), before)
		}
	}
}

// wantAll reads n answers, all of which admit.
func wantAll(t *testing.T, c net.Conn, n int) {
	t.Helper()
	codes, _ := answers(t, c, n)
	for _, code := range codes {
		if code != 200 {
			t.Errorf("%v", codes)
			return
		}
	}
}

// A request that waits for a replaced rule, with a limiter that is not the old one's successor, is released
// in a drain too, however long ago the reload was.
func TestDrainLetsWaitersOfReplacedRulesGo(t *testing.T) {
	t.Parallel()
	for _, seconds := range []int{0, 100} {
		s := start(t, waitRule(1))
		c := dial(t, s.addr)
		defer c.Close()
		io.WriteString(c, strings.Repeat(ways["resident"], 2))
		s.waiting(t, 1)
		next := newConfig(t, waitRule(1))
		s.decide.Swap(snapshotOf(next))
		for range seconds {
			s.decide.EndSecond()
		}
		s.decide.StopWaiting()
		if codes, _ := answers(t, c, 2); codes[0] != 200 || codes[1] != 429 {
			t.Errorf("%d s after the reload: %v", seconds, codes)
		}
		if w := s.waits(); w != (fastlimit.WaitStats{Denied: 1}) {
			t.Errorf("%d s after the reload: %+v", seconds, w)
		}
	}
}
