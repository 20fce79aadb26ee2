package remote

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// hold has batches of the key "slow" fail after a while, and others succeed.
func (m *memory) hold(d time.Duration) {
	m.exec = func(ops []*bucket.Op) error {
		if ops[0].Key != "slow" {
			return nil
		}
		time.Sleep(d)
		return errGone
	}
}

// A batch counts when it ends, however long ago it began.
func TestLongBatchesCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const took = 3 * time.Second
		m := newMemory()
		m.hold(took)
		s := start(t, m, testConfig(new(logs)))
		for range tripRequests / 2 {
			op := new(outcomes).take(t)
			op.Key = "slow"
			go run(s, op)
			pass(2 * time.Millisecond)
		}
		pass(took - tripRequests*time.Millisecond + time.Millisecond)
		for i := range tripRequests / 2 { // each good one follows a bad one
			if s.breaker.away.Load() {
				t.Fatalf("open after %d bad batches of twice as many", i+1)
			}
			run(s, new(outcomes).take(t))
			pass(2 * time.Millisecond)
		}
		run(s, new(outcomes).take(t))
		if s.breaker.away.Load() {
			t.Error("open after fewer bad batches than good ones")
		}
		op := new(outcomes).take(t)
		op.Algorithm = 255
		run(s, op)
		if !s.breaker.away.Load() {
			t.Error("half of the batches that ended within a second were bad, and the breaker is closed")
		}
	})
}

// What began before the breaker opened says nothing about the store that is back.
func TestStaleBatchesDoNotCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.hold(5 * time.Second)
		s := start(t, m, testConfig(new(logs)))
		for range 2 * tripAfter {
			op := new(outcomes).take(t)
			op.Key = "slow"
			go run(s, op)
		}
		synctest.Wait()
		s.breaker.open(m.Classify(errGone))
		pass(4 * time.Second)
		for range tripAfter - 1 {
			op := new(outcomes).take(t)
			op.Algorithm = 255
			run(s, op)
		}
		pass(time.Second) // the slow ones end
		if st := s.Stats(); st.State != "closed" || st.Trips != 1 || st.Errors["gone"] != 2*tripAfter {
			t.Errorf("%s after %d trips, %v", st.State, st.Trips, st.Errors)
		}
	})
}
