package overrides

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/policy"
)

// ask sends one request of a client.
func (w *world) ask(client string) bool {
	var s policy.Scratch
	r := policy.Request{Client: netip.MustParseAddr(client), Method: []byte("GET"), Path: []byte("/")}
	return w.engine.Load().Decide(w.Context(), &r, &s).Decision.Allowed
}

// ride sends n requests of a client at once, and then one each period for a time, all of
// which have to be admitted, and one more at each moment, which never is. With n 0 it goes on from due, the last time.
func (w *world) ride(what, client string, due *time.Time, n int, period, long time.Duration) {
	w.Helper()
	for i := range n {
		if !w.ask(client) {
			w.Fatalf("%s: request %d of %d at once is denied", what, i+1, n)
		}
	}
	if n > 0 {
		*due = time.Now()
	}
	for end := due.Add(long); due.Before(end); {
		if w.ask(client) {
			w.Fatalf("%s: one more than its limit is admitted, %v before the end", what, end.Sub(*due))
		}
		*due = due.Add(period)
		time.Sleep(time.Until(*due)) // less than a period, as changes take time
		if !w.ask(client) {
			w.Fatalf("%s: denied at its very limit, %v before the end", what, end.Sub(*due))
		}
	}
}

// A client that rides at its very limit is never denied, and gets no more than that: by an
// override, while that is set again and those of others change, by the next one from the
// moment on at which it is confirmed, and by the rule's own limit afterwards. Each other limit
// begins with its burst.
func TestRidersAreNeverDenied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const client = "192.0.2.1"
		w := begin(t, newFlaky(), nil)
		var due time.Time
		set := func(limit string) { w.put(`{"rule":"ip","key":"`+client+`",`+limit+`,"for":"10m"}`, 200) }
		w.ride("by the rule's own", client, &due, 2, 30*time.Minute, time.Hour)
		set(`"rate":"10/s","burst":5`)
		w.ride("by an override", client, &due, 5, time.Second/10, 20*time.Second)
		for i := range 10 {
			set(`"rate":"10/s","burst":5`)
			w.put(fmt.Sprintf(`{"rule":"ip","key":"192.0.2.%d","burst":%d}`, 2+i, 5+i), 200)
			w.ride("set again beside others", client, &due, 0, time.Second/10, 3*time.Second)
		}
		set(`"rate":"4/s","burst":8`)
		w.ride("by a slower one", client, &due, 8, time.Second/4, 20*time.Second)
		set(`"rate":"50/s","burst":1`)
		w.ride("by a faster one", client, &due, 1, time.Second/50, 5*time.Second)
		set(`"unlimited":true`)
		w.wants("without limit", client, 10)
		set(`"rate":"50/s","burst":1`)
		w.ride("limited again", client, &due, 1, time.Second/50, 5*time.Second)
		w.store.away.Store(true)
		w.ride("without the store", client, &due, 0, time.Second/50, 9*time.Minute)
		time.Sleep(time.Hour) // it has ended, and the rule's bucket has drained
		w.ride("by the rule's own again", client, &due, 2, 30*time.Minute, time.Hour)
	})
}

// An override ends when it said it would, whenever the store is asked.
func TestEndsOnTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, newFlaky(), nil)
		for i := range 20 {
			life := time.Second + time.Duration(i)*97*time.Millisecond
			for _, client := range []string{"192.0.2", "198.51.100"} {
				w.put(fmt.Sprintf(`{"rule":"ip","key":"%s.%d","burst":5,"for":"%v"}`, client, i, life), 200)
			}
			time.Sleep(life - 3*applyPause) // setting the second took one or two
			w.wants("right before its end", fmt.Sprint("192.0.2.", i), 5)
			time.Sleep(5 * applyPause)
			w.wants("right after its end", fmt.Sprint("198.51.100.", i), 2)
		}
	})
}
