package trial

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/testkit"
)

const (
	loadCallers = 8
	loadKeys    = 16
	// Enough of them to see a fault at once, few enough for tests that run beside others.
	loadPause = 4 * time.Millisecond
)

// Load takes from slow buckets, windows and logs all the time: a unit leaks in a day,
// or counts for a year, so that levels count what has been charged.
type Load struct {
	t      testing.TB
	store  bucket.Store
	shapes []bucket.Shape // of every algorithm

	Failed                  atomic.Uint64 // operations of unknown outcome
	granted                 atomic.Uint64 // units
	accepted, called, twice atomic.Int64

	stop chan struct{}
	wg   sync.WaitGroup
}

// StartLoad starts callers, which [Load.End] stops.
func StartLoad(t testing.TB, s bucket.Store) *Load {
	t.Helper()
	l := &Load{t: t, store: s, shapes: []bucket.Shape{MustShape(t, bucket.LeakyBucket, 1, 24*time.Hour, 50_000)}, stop: make(chan struct{})}
	for _, a := range Algorithms[1:] {
		l.shapes = append(l.shapes, MustShape(t, a, bucket.MaxPortableLog, bucket.MaxPeriod, 0))
	}
	for i := range loadCallers {
		l.wg.Go(func() { l.caller(i) })
	}
	return l
}

// LoadKey is the key of number i; from some number on they are the same again.
func LoadKey(i int) string { return fmt.Sprintf("load%d", i%loadKeys) }

// shape is that of a key.
func (l *Load) shape(i int) bucket.Shape { return l.shapes[i%loadKeys%len(l.shapes)] }

func (l *Load) caller(i int) {
	answered := make(chan struct{}, 1)
	for ; ; i += loadCallers + 1 {
		select {
		case <-l.stop:
			return
		default:
		}
		var calls atomic.Int32
		// Patience, however long, has the store know the time of the server.
		shape := l.shape(i)
		op := &bucket.Op{Algorithm: shape.Algorithm(), Kind: bucket.Take, Key: LoadKey(i), Shape: shape, Cost: shape.Unit(), Count: 1, Patience: time.Minute}
		op.Done = func(_ *bucket.Op, r bucket.Reply, err error) {
			l.called.Add(1)
			if calls.Add(1) > 1 {
				l.twice.Add(1)
				return
			}
			if err != nil {
				l.Failed.Add(1)
			}
			l.granted.Add(r.Granted)
			answered <- struct{}{}
		}
		switch err := l.store.Submit(op); {
		case err == nil:
			l.accepted.Add(1)
			<-answered
		case !errors.Is(err, bucket.ErrAway) && !errors.Is(err, bucket.ErrBusy):
			l.t.Errorf("Submit: %v", err)
		}
		time.Sleep(loadPause)
	}
}

// Progress waits until more takes are granted.
func (l *Load) Progress(what string) {
	l.t.Helper()
	from := l.granted.Load()
	testkit.Eventually(l.t, what, func() bool { return l.granted.Load() >= from+100 })
}

// End stops the load and checks that every operation has one outcome.
func (l *Load) End() {
	l.t.Helper()
	close(l.stop)
	ended := make(chan struct{})
	go func() { l.wg.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(time.Until(testkit.Deadline(l.t))):
		l.t.Fatal("an operation never ended")
	}
	if a, c := l.accepted.Load(), l.called.Load(); a != c || l.twice.Load() != 0 {
		l.t.Errorf("%d operations accepted, Done called %d times, %d too often", a, c, l.twice.Load())
	}
}

// Charged tells the units that a store holds for a key of a limit, rounded up: what has
// leaked of a unit in the seconds of a test.
type Charged func(key string, s bucket.Shape) uint64

// Granted is how many units were granted so far.
func (l *Load) Granted() uint64 { return l.granted.Load() }

// Units adds up what a store holds for all keys.
func (l *Load) Units(charged Charged) (units uint64) {
	for i := range loadKeys {
		units += charged(LoadKey(i), l.shape(i))
	}
	return units
}

// Audit checks that what was charged is what was granted and at most what has an unknown
// outcome besides: nothing was charged twice. Where the store has forgotten, lost, that
// is all that can be said.
func (l *Load) Audit(charged Charged, lost bool) {
	l.t.Helper()
	units, granted, failed := l.Units(charged), l.granted.Load(), l.Failed.Load()
	if units > granted+failed {
		l.t.Errorf("%d units charged, %d granted and %d unknown: some were charged twice", units, granted, failed)
	}
	if units < granted && !lost {
		l.t.Errorf("%d units charged, %d granted: some were lost", units, granted)
	}
}
