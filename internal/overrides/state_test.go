package overrides

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"
)

// TestSavedOverrides: without a store the next process continues with what operators have set, for the time
// left, keeps deletions, and keeps later changes as they are. With a store nothing is saved: the store has
// it.
func TestSavedOverrides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		local := func(c *Config) { c.Store = nil }
		w := begin(t, nil, local)
		w.put(`{"rule":"ip","key":"192.0.2.1","burst":5,"for":"1h"}`, 200)
		w.put(`{"rule":"ip","key":"2001:db8::/64","burst":6,"for":"1h"}`, 200) // of a name that is no text
		w.put(`{"rule":"ip","key":"192.0.2.2","burst":7,"for":"2m"}`, 200)
		w.put(`{"rule":"ip","key":"192.0.2.3","burst":8,"for":"1h"}`, 200)
		w.put(`{"rule":"ip","key":"192.0.2.4","burst":9,"for":"1h"}`, 200)
		if err := w.set.Delete(t.Context(), "ip", []string{"192.0.2.4"}, "me"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		b, err := json.Marshal(w.set.Save())
		if err != nil {
			t.Fatal(err)
		}
		var saved []Saved
		if err := json.Unmarshal(b, &saved); err != nil || len(saved) != 5 {
			t.Fatalf("%d saved, %v", len(saved), err)
		}
		saved = append(saved, Saved{[]byte("x"), []byte("no override"), 5, time.Hour}, Saved{[]byte("y"), make([]byte, 1<<20), 5, time.Hour})
		next := begin(t, nil, local)
		next.put(`{"rule":"ip","key":"192.0.2.3","burst":3,"for":"1h"}`, 200) // by an operator, before the file was read
		if n, err := next.set.Restore(t.Context(), saved, 5*time.Minute); err != nil || n != 2 {
			t.Errorf("%d are in force because of it, %v; want 2", n, err)
		}
		next.wants("at once", "192.0.2.1", 5)
		next.wants("a prefix", "2001:db8::9", 6)
		next.wants("what has ended meanwhile", "192.0.2.2", 2)
		next.wants("what was changed meanwhile", "192.0.2.3", 3)
		next.wants("what was deleted", "192.0.2.4", 2)
		time.Sleep(54*time.Minute + pollMost)
		if l := next.list(""); l.Live != 1 {
			t.Errorf("after their end: %+v", l)
		}
		if n, err := next.set.Restore(t.Context(), nil, 0); n != 0 || err != nil {
			t.Errorf("nothing: %d, %v", n, err)
		}
		store := newFlaky()
		kept := begin(t, store, nil)
		kept.put(`{"rule":"ip","key":"192.0.2.1","burst":5}`, 200)
		if n, err := kept.set.Restore(t.Context(), saved, 0); n != 0 || err != nil || kept.set.Save() != nil {
			t.Errorf("with a store: %d, %v, saved %v", n, err, kept.set.Save())
		}
	})
}
