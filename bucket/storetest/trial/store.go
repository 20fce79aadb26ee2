package trial

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/fastlimit/fastlimit/bucket/storetest"
	"github.com/fastlimit/fastlimit/internal/testkit"
)

// Counted is what a store across a network counts, as each of them names it.
type Counted struct {
	remote.Stats

	Sent        uint64 // commands or statements
	Connections int
	ClockOffset time.Duration
}

// StatsCount checks that takes, batches and round trips are counted, one for one. classes
// is how many classes of errors the store has.
func StatsCount(t *testing.T, s bucket.Store, classes int, stats func() Counted) {
	t.Helper()
	before := stats()
	shape := MustShape(t, bucket.LeakyBucket, 10, time.Second, 5)
	for range 10 {
		if _, err := storetest.Do(s, bucket.Op{Kind: bucket.Take, Key: "a", Shape: shape, Cost: shape.Unit(), Count: 1}); err != nil {
			t.Fatal(err)
		}
	}
	// A batch is counted after its operations are done.
	testkit.Eventually(t, "the last batch to be counted", func() bool { return stats().Pipelines == 10 })
	st := stats()
	if st.Takes != 10 || st.Pipelines != 10 || st.Sent-before.Sent != 10 || st.RoundTripSum <= 0 {
		t.Errorf("%d takes, %d pipelines, %d sent, %v", st.Takes, st.Pipelines, st.Sent-before.Sent, st.RoundTripSum)
	}
	if len(st.Errors) != classes || st.Connections == 0 || st.State != "closed" {
		t.Errorf("%+v", st)
	}
	if off := st.ClockOffset; off > time.Minute || off < -time.Minute {
		t.Errorf("ClockOffset = %v on the same machine", off)
	}
}

// Unportable checks that a limit beyond what a store can keep exactly is refused by name,
// for itself: its bucket can be emptied, and the breaker stays closed.
func Unportable(t *testing.T, s bucket.Store, stats func() remote.Stats) {
	t.Helper()
	refused(t, s, MustShape(t, bucket.LeakyBucket, 1, 24*time.Hour, 10_000_000), "want at most 2^52, use a smaller burst")
	if st := stats(); st.State != "closed" || st.Errors["other"] != 1 {
		t.Errorf("state %s, errors %v", st.State, st.Errors)
	}
}

// TooLongLog checks that a log of more than [bucket.MaxPortableLog] units is refused by
// name, and one of so many is not.
func TooLongLog(t *testing.T, s bucket.Store) {
	t.Helper()
	refused(t, s, MustShape(t, bucket.SlidingLog, bucket.MaxPortableLog, time.Minute, 0), "")
	refused(t, s, MustShape(t, bucket.SlidingLog, bucket.MaxPortableLog+1, time.Minute, 0), "log of 4097 units: want at most 4096, or a sliding window")
}

// refused checks that takes fail with an error that has a text, or do not if that is
// empty. A reset works either way.
func refused(t *testing.T, s bucket.Store, shape bucket.Shape, want string) {
	t.Helper()
	op := bucket.Op{Algorithm: shape.Algorithm(), Kind: bucket.Take, Key: "a", Shape: shape, Cost: shape.Unit(), Count: 1}
	r, err := storetest.Do(s, op)
	var e *remote.Error
	switch {
	case want == "" && (err != nil || r.Granted != 1):
		t.Errorf("%v of %d: %+v, %v", shape.Algorithm(), shape.Limit(), r, err)
	case want != "" && (!errors.As(err, &e) || e.Class.Name != "other" || !strings.Contains(err.Error(), want)):
		t.Errorf("%v of %d: %+v, %v; want an error with %q", shape.Algorithm(), shape.Limit(), r, err, want)
	}
	op.Kind = bucket.Reset
	if _, err := storetest.Do(s, op); err != nil {
		t.Errorf("%v of %d: reset: %v", shape.Algorithm(), shape.Limit(), err)
	}
}
