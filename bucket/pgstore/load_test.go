package pgstore

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/testkit/pgtest"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

const (
	loadCallers = 8
	loadKeys    = 16
)

// load takes from slow buckets, windows and logs all the time: a unit leaks in a day,
// or counts for a year, so that levels count what has been charged.
type load struct {
	t      testing.TB
	store  *Store
	shapes []bucket.Shape // of every algorithm

	granted, failed, accepted, called, twice atomic.Int64

	stop chan struct{}
	wg   sync.WaitGroup
}

func startLoad(t testing.TB, s *Store) *load {
	t.Helper()
	l := &load{t: t, store: s, shapes: []bucket.Shape{mustShape(t, 1, 24*time.Hour, 50_000)}, stop: make(chan struct{})}
	for _, a := range algorithms[1:] {
		shape, err := shapeOf(a, bucket.MaxPortableLog, bucket.MaxPeriod, 0)
		if err != nil {
			t.Fatal(err)
		}
		l.shapes = append(l.shapes, shape)
	}
	for i := range loadCallers {
		l.wg.Go(func() { l.caller(i) })
	}
	return l
}

func loadKey(i int) string { return fmt.Sprintf("load%d", i%loadKeys) }

// shape is that of a key.
func (l *load) shape(i int) bucket.Shape { return l.shapes[i%loadKeys%len(l.shapes)] }

func (l *load) caller(i int) {
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
		op := &bucket.Op{Algorithm: shape.Algorithm(), Kind: bucket.Take, Key: loadKey(i), Shape: shape, Cost: shape.Unit(), Count: 1, Patience: time.Minute}
		op.Done = func(_ *bucket.Op, r bucket.Reply, err error) {
			l.called.Add(1)
			if calls.Add(1) > 1 {
				l.twice.Add(1)
				return
			}
			if err != nil {
				l.failed.Add(1)
			}
			l.granted.Add(int64(r.Granted))
			answered <- struct{}{}
		}
		switch err := l.store.Submit(op); {
		case err == nil:
			l.accepted.Add(1)
			<-answered
		case errors.Is(err, bucket.ErrAway), errors.Is(err, bucket.ErrBusy):
			time.Sleep(time.Millisecond)
		default:
			l.t.Errorf("Submit: %v", err)
		}
	}
}

// progress waits until more takes are granted.
func (l *load) progress(what string) {
	l.t.Helper()
	from := l.granted.Load()
	redistest.Eventually(l.t, what, func() bool { return l.granted.Load() >= from+100 })
}

// end stops the load and checks that every operation has one outcome.
func (l *load) end() {
	l.t.Helper()
	close(l.stop)
	ended := make(chan struct{})
	go func() { l.wg.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		l.t.Fatal("an operation never ended")
	}
	if a, c := l.accepted.Load(), l.called.Load(); a != c || l.twice.Load() != 0 {
		l.t.Errorf("%d operations accepted, Done called %d times, %d too often", a, c, l.twice.Load())
	}
}

// charged sums the levels of all keys in units, rounded up: what has leaked of
// a unit in the seconds of a test.
func (l *load) charged(server *pgtest.Server) (units int64) {
	l.t.Helper()
	for i := range loadKeys {
		unit := 1
		if shape := l.shape(i); shape.Algorithm() == bucket.LeakyBucket {
			unit = int(shape.Unit())
		}
		text := server.Do(fmt.Sprintf("SELECT (level + %d - 1) / %[1]d + previous + coalesce(cardinality(times), 0) FROM fastlimit.bucket WHERE key = '%s'", unit, loadKey(i)))
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			l.t.Fatal(err)
		}
		units += n
	}
	return units
}

// audit checks that what was charged is what was granted and at most what has
// an unknown outcome besides: nothing was charged twice.
func (l *load) audit(server *pgtest.Server, lost bool) {
	l.t.Helper()
	units, granted, failed := l.charged(server), l.granted.Load(), l.failed.Load()
	if units > granted+failed {
		l.t.Errorf("%d units charged, %d granted and %d unknown: some were charged twice", units, granted, failed)
	}
	if units < granted && !lost {
		l.t.Errorf("%d units charged, %d granted: some were lost", units, granted)
	}
}
