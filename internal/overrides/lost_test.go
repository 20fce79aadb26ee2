package overrides

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/bucket/registry"
)

// A store that has lost its last changes and continues, which its versions do not reveal, gets them from the
// nodes that knew them, including deletions.
func TestSetAfterFailover(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFlaky()
		a, b := begin(t, store, nil), begin(t, store, nil)
		for _, client := range []string{"192.0.2.1", "192.0.2.2"} {
			a.put(`{"rule":"ip","key":"`+client+`","burst":5,"for":"1h"}`, 200)
		}
		time.Sleep(2 * pollMost)
		back := store.Snapshot()
		a.put(`{"rule":"ip","key":"192.0.2.3","burst":6,"for":"1h"}`, 200)
		a.put(`{"rule":"ip","key":"192.0.2.2","burst":7,"for":"1h"}`, 200)
		if err := a.set.Delete(t.Context(), "ip", []string{"192.0.2.1"}, "me"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * pollMost)
		back()
		b.put(`{"rule":"ip","key":"192.0.2.4","burst":8,"for":"1h"}`, 200)
		time.Sleep(2 * pollMost)
		for _, w := range []*world{a, b} {
			w.wants("what was set", "192.0.2.3", 6)
			w.wants("what was changed", "192.0.2.2", 7)
			w.wants("what was deleted", "192.0.2.1", 2)
			w.wants("what came after", "192.0.2.4", 8)
		}
		if l := b.list(""); l.Live != 3 || strings.Count(a.log.String()+b.log.String(), "has lost some") == 0 {
			t.Errorf("%+v\n%s", l, b.log.String())
		}
	})
}

// A node that was away for longer than deletions are remembered does not bring back what was deleted.
func TestSetComesBackLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, away := newFlaky(), newFlaky()
		away.Memory = store.Memory // which is out of reach for b alone
		a, b := begin(t, store, nil), begin(t, away, nil)
		a.put(`{"rule":"ip","key":"192.0.2.1","burst":5,"for":"9h"}`, 200)
		time.Sleep(2 * pollMost)
		away.away.Store(true)
		if err := a.set.Delete(t.Context(), "ip", []string{"192.0.2.1"}, "me"); err != nil {
			t.Fatal(err)
		}
		for i := range registry.MaxRecords - 1 { // until the store forgets what has ended
			if err := store.Put(t.Context(), strconv.Itoa(i), "no override", registry.Grave); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * registry.Grave)
		a.put(`{"rule":"ip","key":"192.0.2.2","burst":5}`, 200)
		away.away.Store(false)
		time.Sleep(2 * pollMost)
		for _, w := range []*world{a, b} {
			if l := w.list(""); l.Live != 1 {
				t.Errorf("%+v", l)
			}
		}
	})
}

// What is deleted right after the store has lost everything stays deleted.
func TestSetDeletesWhatWasLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFlaky()
		a, b := begin(t, store, nil), begin(t, store, nil)
		a.put(`{"rule":"ip","key":"192.0.2.1","burst":5,"for":"1h"}`, 200)
		time.Sleep(2 * pollMost)
		store.Forget()
		if err := a.set.Delete(t.Context(), "ip", []string{"192.0.2.1"}, "me"); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * pollMost)
		for _, w := range []*world{a, b} {
			w.wants("what was deleted", "192.0.2.1", 2)
		}
		if err := a.set.Delete(t.Context(), "ip", []string{"192.0.2.1"}, "me"); statusOf(err) != 404 {
			t.Errorf("again: %v", err)
		}
	})
}
