package overrides

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// Tiers have no more clients than there is room for, each client once, however often its
// override is set.
func TestRooms(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const clients = 40
		w := begin(t, newFlaky(), nil)
		for i := range clients + 60 {
			w.put(fmt.Sprintf(`{"rule":"ip","key":"192.0.2.%d","burst":5}`, i%clients), 200)
		}
		taken := 0
		for _, r := range w.set.tiers.rooms {
			if taken += r.taken; r.taken > r.clients {
				t.Errorf("%d clients in a tier for %d", r.taken, r.clients)
			}
		}
		if taken != clients || len(w.set.tiers.rooms) != 2 {
			t.Errorf("%d clients in %d tiers, want %d in 2", taken, len(w.set.tiers.rooms), clients)
		}
	})
}

// max_overrides is for those of the file, one here, and live ones together. One that exists
// may be changed; of those that another node has set, the rest is shown, and not in force.
func TestMaxOverrides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFlaky()
		w, more := begin(t, store, func(c *Config) { c.Policy.MaxOverrides = 4 }), begin(t, store, nil)
		for i, status := range []int{200, 200, 200, http.StatusInsufficientStorage} {
			w.put(fmt.Sprintf(`{"rule":"ip","key":"192.0.2.%d","burst":5}`, i), status)
		}
		w.put(`{"rule":"ip","key":"192.0.2.1","burst":6}`, 200)
		more.put(`{"rule":"ip","key":"192.0.2.9","burst":5}`, 200)
		more.wants("where more may be", "192.0.2.9", 5)
		time.Sleep(2 * pollMost)
		w.wants("one too many", "192.0.2.9", 2)
		if st := w.set.Stats(); st.Rules[0].Live != 3 || st.Unused != 1 {
			t.Errorf("%+v", st)
		}
	})
}
