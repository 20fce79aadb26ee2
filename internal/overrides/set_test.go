package overrides

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket/registry"
	"github.com/fastlimit/fastlimit/policy"
)

// world is a node with a store that can be taken away.
type world struct {
	*testing.T
	set    *Set
	store  *flaky
	engine atomic.Pointer[policy.Engine]
	log    strings.Builder
}

// flaky is a store in memory that can be away.
type flaky struct {
	*registry.Memory
	away atomic.Bool
}

func newFlaky() *flaky { return &flaky{Memory: new(registry.Memory)} }

func (f *flaky) Mark(ctx context.Context) (registry.Mark, error) {
	if f.away.Load() {
		return registry.Mark{}, errors.New("away")
	}
	return f.Memory.Mark(ctx)
}

func (f *flaky) Put(ctx context.Context, name, value string, life time.Duration) error {
	if f.away.Load() {
		return errors.New("away")
	}
	return f.Memory.Put(ctx, name, value, life)
}

// begin starts a node, within a bubble.
func begin(t *testing.T, store *flaky, change func(*Config)) *world {
	t.Helper()
	w := build(t, store, change)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := w.set.Start(ctx, func(e *policy.Engine, _ []*fastlimit.Rule) { w.engine.Store(e) })
	t.Cleanup(func() { cancel(); <-stopped })
	return w
}

// build makes a node that has not begun.
func build(t *testing.T, store *flaky, change func(*Config)) *world {
	t.Helper()
	set := &policy.Settings{Rules: rulesOfFile()}
	lim, err := fastlimit.New(fastlimit.Config{Rules: set.Limits()})
	if err != nil {
		t.Fatal(err)
	}
	e, err := policy.New(lim, *set)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, store: store}
	c := Config{Policy: set, Limiter: lim, Engine: e, Store: store, Kept: "memory", Memory: 1 << 20, Log: slog.New(slog.NewTextHandler(&w.log, nil))}
	if change != nil {
		change(&c)
	}
	w.set = New(c)
	w.engine.Store(e)
	return w
}

func rulesOfFile() []policy.RuleSpec {
	hour := fastlimit.Rate{N: 2, Per: time.Hour}
	return []policy.RuleSpec{
		{Limit: fastlimit.RuleConfig{Name: "ip", Rate: hour}, Key: []policy.KeyPart{{Kind: policy.KeyIP}}, Overrides: []policy.Override{{Key: []string{"10.0.0.0/8"}, Burst: 4}}},
		{Limit: fastlimit.RuleConfig{Name: "m", Rate: fastlimit.Rate{N: 1000, Per: time.Second}}, Key: []policy.KeyPart{{Kind: policy.KeyMethod}, {Kind: policy.KeyPath}}},
	}
}

// admits is how many of ten requests of a client are admitted.
func (w *world) admits(client string) (n int) {
	var s policy.Scratch
	r := policy.Request{Client: netip.MustParseAddr(client), Method: []byte("GET"), Path: []byte("/")}
	for range 10 {
		if w.engine.Load().Decide(w.Context(), &r, &s).Decision.Allowed {
			n++
		}
	}
	return n
}

func (w *world) put(body string, status int) {
	w.Helper()
	_, err := w.set.Put(w.Context(), []byte(body), "me")
	if got := statusOf(err); got != status {
		w.Errorf("%s: %d %v, want %d", body, got, err, status)
	}
}

// statusOf is what a call is answered with.
func statusOf(err error) int {
	if r, ok := err.(interface{ HTTPStatus() int }); ok {
		return r.HTTPStatus()
	}
	return 200
}

func (w *world) wants(what, client string, want int) {
	w.Helper()
	if got := w.admits(client); got != want {
		w.Errorf("%s: %s gets %d, want %d", what, client, got, want)
	}
}

func TestSetFollowsAndEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFlaky()
		a, b := begin(t, store, nil), begin(t, store, nil)
		a.wants("before", "192.0.2.1", 2)
		a.put(`{"rule":"ip","key":"192.0.2.1","burst":5,"for":"10m"}`, 200)
		a.wants("at once", "192.0.2.1", 5)
		a.put(`{"rule":"ip","key":["::ffff:192.0.2.1"],"burst":5,"for":"1h"}`, 200) // the same client, longer
		a.wants("with the same limit", "192.0.2.1", 0)
		time.Sleep(pollMost)
		b.wants("on another node", "192.0.2.1", 5)
		b.put(`{"rule":"ip","key":["10.1.0.0/16"],"unlimited":true}`, 200)
		b.wants("a longer prefix than the file's", "10.1.2.3", 10)
		b.wants("that of the file", "10.2.2.3", 4)
		b.put(`{"rule":"ip","key":["10.0.0.0/8"],"burst":3}`, 200)
		b.wants("the same prefix as the file's", "10.3.2.3", 3)
		store.away.Store(true)
		a.put(`{"rule":"ip","key":["192.0.2.9"],"burst":5}`, 503)
		time.Sleep(30 * time.Minute)
		b.wants("without the store", "10.1.2.3", 10)
		time.Sleep(29*time.Minute + 57*time.Second)
		if l := b.list(""); l.Live != 2 && l.Live != 3 {
			t.Errorf("before the end: %+v", l)
		}
		time.Sleep(10 * time.Second)
		b.wants("after its end, without the store", "10.1.2.4", 4)
		if st := b.set.Stats(); st.Rules[0].Live != 0 || st.Errors == 0 || st.Age < 50*time.Minute || strings.Count(b.log.String(), "the store does not answer") != 1 {
			t.Errorf("%+v\n%s", st, b.log.String())
		}
		store.away.Store(false)
		time.Sleep(pollMost)
		b.put(`{"rule":"ip","key":["192.0.2.1"],"burst":6}`, 200)
		store.Forget() // as a restart without persistence
		time.Sleep(2 * pollMost)
		b.wants("told again", "192.0.2.1", 6)
		if err := a.set.Delete(t.Context(), "ip", []string{"192.0.2.1"}, "me"); err != nil {
			t.Error(err)
		}
		store.Forget()
		time.Sleep(2 * pollMost)
		if l := b.list(""); l.Live != 0 || l.File != 1 {
			t.Errorf("what was deleted is back: %+v", l)
		}
	})
}

func TestSetRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, newFlaky(), nil)
		for body, status := range map[string]int{
			`{`: 400, `{"rule":"ip","key":"1.2.3.4","burst":1,"x":1}`: 400, `{"rule":"ip","rule":"m"}`: 400, `{}{}`: 400,
			`{"rule":"ip","key":"1.2.3.4","burst":-1}`: 400, `{"rule":"ip","key":7}`: 400,
			`{"rule":"ip","key":"1.2.3.4","burst":3,"for":"-1s"}`: 400, `{"rule":"ip","key":"1.2.3.4","burst":3,"for":"9000h"}`: 400, `{"rule":"ip","key":"1.2.3.4","burst":3,"for":60}`: 400,
			`{"rule":"no","key":"1.2.3.4","burst":3}`: 404,
			`{"rule":"ip","key":"1.2.3.4"}`:           422, `{"rule":"ip","key":["1.2.3.4","x"],"burst":3}`: 422, `{"rule":"ip","key":"x","burst":3}`: 422, `{"rule":"ip","key":"1.2.3.4/8","burst":3}`: 422,
			`{"rule":"ip","key":"1.2.3.4","rate":"0/s"}`: 422, `{"rule":"ip","key":"1.2.3.4","rate":"100003/s"}`: 422, `{"rule":"ip","key":"1.2.3.4","rate":"5/s","unlimited":true}`: 422,
			`{"rule":"m","key":["GET","no path"],"burst":3}`: 422, `{"rule":"m","key":["","/"],"burst":3}`: 422,
			`{"rule":"m","key":["GET","/` + strings.Repeat("a", 5000) + `"],"burst":3}`: 422,
			`{"rule":"ip","key":"1.2.3.4","burst":18446744073709551615}`:                422,
		} {
			w.put(body, status)
		}
		if st := w.set.Stats(); st.Rules[0].Live+st.Rules[1].Live+st.Unused > 0 {
			t.Errorf("%+v", st)
		}
		// Parts do not run into each other.
		w.put(`{"rule":"m","key":["a","/b/c"],"burst":3}`, 200)
		w.put(`{"rule":"m","key":["a/b","/c"],"burst":3}`, 200)
		w.put(`{"rule":"m","key":["a","/\u0001"],"burst":3}`, 200)
		if st := w.set.Stats(); st.Rules[1].Live != 3 {
			t.Errorf("%+v", st)
		}
	})
}

// More clients of a limit than a tier has room for get another tier: those who were there
// keep their buckets. Memory ends at its bound, and is given back.
func TestSetMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, newFlaky(), func(c *Config) { c.Memory = 512 << 10 })
		n := 0
		for ; n < 1000; n++ {
			body := fmt.Sprintf(`{"rule":"ip","key":"192.0.%d.%d","burst":5}`, 2+n/250, n%250)
			if _, err := w.set.Put(t.Context(), []byte(body), "me"); err != nil {
				if !strings.Contains(err.Error(), "raise memory") {
					t.Error(err)
				}
				break
			}
			if n == 0 {
				w.wants("the first", "192.0.2.0", 5)
			}
		}
		w.wants("the first, of many", "192.0.2.0", 0)
		w.wants("the last", fmt.Sprintf("192.0.%d.%d", 2+(n-1)/250, (n-1)%250), 5)
		st := w.set.Stats()
		if n < 100 || n > 400 || st.Rules[0].Live != n || st.Unused != 0 || st.Bytes > 512<<10 || st.Bytes < 256<<10 {
			t.Errorf("%d clients: %+v", n, st)
		}
		w.put(`{"rule":"ip","key":"192.0.2.0","burst":5,"for":"2h"}`, 200) // longer needs no room
		for i := range n {
			if err := w.set.Delete(t.Context(), "ip", []string{fmt.Sprintf("192.0.%d.%d", 2+i/250, i%250)}, "me"); err != nil {
				t.Fatal(err)
			}
		}
		if st := w.set.Stats(); st.Bytes != 0 || len(w.set.tiers.rooms) != 0 {
			t.Errorf("after all were deleted: %+v", st)
		}
		w.put(`{"rule":"ip","key":"192.0.2.0","burst":5}`, 200)
	})
}

// Records of others are ignored, counted and logged once; those of rules that are gone are
// shown as such.
func TestSetIgnores(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFlaky()
		for name, value := range map[string]string{
			"a": "no json", "b": "null", "c": `{"rule":"ip","key":["1.2.3.4"],"burst":5}`, recordName("ip", "x"): `{"rule":"ip","key":["1.2.3.4"],"burst":5}`,
			"d": `{"rule":"ip","key":["1.2.3.4"],"rate":"x"}`, "e": strings.Repeat("[", 4000), "f": `{"rule":"ip","key":["1.2.3.4"],"burst":5,"burst":6}`,
			recordName("gone", "x"): `{"rule":"gone","key":["x"],"burst":5}`,
		} {
			if err := store.Memory.Put(t.Context(), name, value, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		w := begin(t, store, nil)
		w.put(`{"rule":"ip","key":"192.0.2.1","burst":5}`, 200)
		w.wants("ours", "192.0.2.1", 5)
		w.wants("theirs", "1.2.3.4", 2)
		if st := w.set.Stats(); st.Unused < 1 || st.Ignored < 6 || st.Ignored+st.Unused != 8 || strings.Count(w.log.String(), "are ignored") != 1 {
			t.Errorf("%+v\n%s", st, w.log.String())
		}
		if err := w.set.Delete(t.Context(), "gone", []string{"x"}, "me"); err != nil {
			t.Error(err)
		}
	})
}

// Changes without end are made together: a fifth of the time is spent on applying them.
func TestSetCoalesces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, newFlaky(), nil)
		start := time.Now()
		var made, busy atomic.Int64
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				for k := range 20 {
					_, err := w.set.Put(t.Context(), fmt.Appendf(nil, `{"rule":"ip","key":"192.0.2.%d","burst":%d}`, i, 3+k%2), "me")
					if err == nil {
						made.Add(1)
					} else if busy.Add(1); !strings.Contains(err.Error(), "try again") {
						t.Error(err)
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		all.Wait()
		swaps := w.set.Stats().Applied
		if most := uint64(time.Since(start)/applyPause) + 3; swaps > most || made.Load() < 100 || made.Load()+busy.Load() != 2000 {
			t.Errorf("%d changes, %d refused, applied %d times in %v, want at most %d", made.Load(), busy.Load(), swaps, time.Since(start), most)
		}
	})
}

// What has not changed is not read again for each change, and pauses are for reading as well as for applying.
func TestSetRests(t *testing.T) { // with the machine's time, which a bubble's does not follow
	t.Parallel()
	w := begin(t, newFlaky(), nil)
	w.put(`{"rule":"ip","key":"192.0.2.1","burst":5}`, 200)
	w.put(`{"rule":"ip","key":"192.0.2.2","burst":5}`, 200)
	key := func(i int) *string { return &w.set.current()[i].value.Key[0] } // in the order of names
	one, two := key(0), key(1)
	w.put(`{"rule":"ip","key":"192.0.2.2","burst":6}`, 200)
	if key(0) != one || key(1) == two {
		t.Error("want to read anew only what has changed")
	}
	s := w.set
	s.asking.Lock()
	defer s.asking.Unlock()
	var c registry.Contents
	for i := range 1000 {
		c.Records = append(c.Records, registry.Record{Name: recordName("ip", "x"), Value: "{" + strings.Repeat(" ", i), Left: time.Hour})
	}
	if s.take(&c, time.Now()); s.took <= 0 {
		t.Error("reading is not counted")
	}
	s.took = time.Minute
	began := time.Now()
	if s.applyAll(); s.rested.Sub(began) < applyShare*time.Minute || s.took != 0 {
		t.Errorf("rests for %v after a minute of reading, and keeps %v", s.rested.Sub(began), s.took)
	}
}
