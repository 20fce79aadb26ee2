package overrides

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

// Live overrides take no more memory than is counted for them, by which changes are
// refused, also while the engine before is in use yet: few limits of many clients, many
// limits, prefixes, and keys of several parts.
func TestLiveMemoryIsCounted(t *testing.T) { // not parallel: it counts all that is allocated
	address := func(i int) []string { return []string{fmt.Sprintf("192.%d.%d.7", i/250, i%250)} }
	for _, c := range []struct {
		what string
		n    int
		of   func(i int) change
	}{
		{"addresses of one limit", 4000, func(i int) change { return change{Rule: "ip", Key: address(i), Burst: 5} }},
		{"addresses of 800 limits", 4000, func(i int) change { return change{Rule: "ip", Key: address(i), Burst: uint64(5 + i%800)} }},
		{"prefixes", 20, func(i int) change {
			return change{Rule: "ip", Key: []string{fmt.Sprintf("192.%d.0.0/16", i)}, Burst: uint64(5 + i)}
		}},
		{"unlimited", 4000, func(i int) change {
			return change{Rule: "ip", Key: []string{fmt.Sprintf("2001:db8:%x::/64", i)}, Unlimited: true}
		}},
		{"long keys of two parts", 1000, func(i int) change {
			return change{Rule: "m", Key: []string{"GET", fmt.Sprintf("/%01000d", i)}, Rate: strconv.Itoa(1+i%3) + "/s"}
		}},
	} {
		w := build(t, newFlaky(), func(c *Config) { c.Memory = 1 << 30 })
		var engines [2]*policy.Engine // the last two
		w.set.apply = func(e *policy.Engine, _ []*fastlimit.Rule) { engines[0], engines[1] = engines[1], e }
		w.set.step(t.Context())
		before := heap()
		for i := range c.n {
			wanted := c.of(i)
			e, err := w.set.wanted(&wanted, "me")
			if err != nil {
				t.Fatal(c.what, err)
			}
			if err := w.store.Put(t.Context(), e.record.Name, e.record.Value, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		for range engines {
			w.set.mark.Version++ // so that all is read and applied again
			w.set.step(t.Context())
		}
		used, st := heap()-before, w.set.Stats()
		t.Logf("%s: %d bytes for each, counted %d", c.what, used/int64(c.n), st.Bytes/int64(c.n))
		if used > st.Bytes || st.Rules[0].Live+st.Rules[1].Live != c.n || st.Applied < 2 {
			t.Errorf("%s: %d bytes in use, counted %d: %+v", c.what, used, st.Bytes, st)
		}
		runtime.KeepAlive(engines)
		runtime.KeepAlive(w)
	}
}

// heap is how many bytes are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what finalizers held
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
