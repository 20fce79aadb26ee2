package fastlimit

import (
	"bytes"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestSaveWhileRequestsGoOn: what is saved meanwhile can be loaded, and has what was charged
// before: a client that was over its limit is over it, and one that never came is not there.
func TestSaveWhileRequestsGoOn(t *testing.T) {
	t.Parallel()
	l, err := New(Config{Memory: MinMemory, Rules: []RuleConfig{
		withBan(rule("b", 1, time.Hour, 20), BanPolicy{After: 100, For: time.Hour}), slidingRule("s", 20, time.Hour), logRule("l", 5, time.Hour), withTheta(rule("x", 1, time.Hour, 5), 0),
	}})
	if err != nil {
		t.Fatal(err)
	}
	attacker, nobody := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for _, r := range l.rules {
		for range 50 {
			r.Allow(r.AddrKey(attacker))
		}
	}
	var wg sync.WaitGroup
	var stop atomic.Bool
	for g := range 4 {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				for _, r := range l.rules {
					key := r.AddrKey(netip.AddrFrom4([4]byte{10, byte(g), byte(i >> 8), byte(i)}))
					r.Allow(key)
					r.Take(t.Context(), key, 3)
					if i%7 == 0 {
						r.Reset(key)
					}
				}
				if i%100 == 0 {
					l.Advance()
				}
			}
		})
	}
	for range 20 {
		var file bytes.Buffer
		if err := l.Save(&file); err != nil {
			t.Fatal(err)
		}
		loaded, err := Load(&file, LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range loaded.rules {
			if r.Peek(r.AddrKey(attacker), 1).Allowed && r.buckets.Table.Evictions() == 0 && l.byName[r.config.Name].buckets.Table.Evictions() == 0 {
				t.Errorf("rule %s: the attacker is forgotten", r.config.Name)
			}
			if d := r.Peek(r.AddrKey(nobody), r.config.Burst); !d.Allowed {
				t.Errorf("rule %s: somebody who never came: %+v", r.config.Name, d)
			}
		}
	}
	stop.Store(true)
	wg.Wait()
}
