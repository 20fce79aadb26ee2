package pgstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// What had to wait for the lock of its key is late: a take changes nothing, neither
// does a refund. Without patience it is charged.
func TestWaitForALockMakesLate(t *testing.T) {
	t.Parallel()
	var c Config
	server := started(t, &c)
	s := mustOpen(t, c)
	shape := mustShape(t, 1, time.Hour, 10)
	take := bucket.Op{Kind: bucket.Take, Key: "a", Shape: shape, Cost: shape.Unit(), Count: 3}
	if _, err := do(s, take); err != nil {
		t.Fatal(err)
	}
	held := server.Session()
	if _, err := held.Exec(t.Context(), "SELECT pg_advisory_lock(1718380909, $1)", lockOf("a")); err != nil {
		t.Fatal(err)
	}
	late := take
	late.Patience = 50 * time.Millisecond
	back := late
	back.Kind = bucket.Refund
	outcomes := make(chan error, 3)
	for _, op := range []*bucket.Op{&late, &back, &take} {
		op.Done = func(_ *bucket.Op, _ bucket.Reply, err error) { outcomes <- err }
		if err := s.Submit(op); err != nil {
			t.Fatal(err)
		}
	}
	redistest.Eventually(t, "somebody waits for the lock", func() bool {
		return server.Do("SELECT count(*) FROM pg_locks WHERE NOT granted") != "0"
	})
	time.Sleep(100 * time.Millisecond)
	if _, err := held.Exec(t.Context(), "SELECT pg_advisory_unlock_all()"); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for range 3 {
		if err := <-outcomes; errors.Is(err, bucket.ErrLate) {
			refused++
		} else if err != nil {
			t.Error(err)
		}
	}
	peek := bucket.Op{Kind: bucket.Peek, Key: "a", Shape: shape, Cost: shape.Unit(), Count: 10}
	if r, err := do(s, peek); err != nil || r.Granted != 4 || refused != 2 {
		t.Errorf("%+v, %v; %d were late: want 6 units charged, and two that were late", r, err, refused)
	}
}

// While somebody locks the table, attempts to use it on new connections leave no
// process behind that waits for as long.
func TestLockedTableKeepsNoBackends(t *testing.T) {
	t.Parallel()
	at := newSite(t)
	at.do("BEGIN; LOCK TABLE fastlimit.bucket")
	s := openBrisk(t, brisk(at.url(), new(logs)))
	redistest.Eventually(t, "some attempts", func() bool { return s.Stats().Statements > 4 })
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "none to wait any longer", func() bool {
		return at.server.Do("SELECT count(*) FROM pg_stat_activity WHERE usename = 'node'") == "0"
	})
	at.do("COMMIT")
}

// And so it is where nobody is left to cancel the attempt: the server ends it by itself,
// on a connection that has not yet read the table's definition, too.
func TestNewConnectionDoesNotWaitForever(t *testing.T) {
	t.Parallel()
	at := newSite(t)
	at.do("BEGIN; LOCK TABLE fastlimit.bucket")
	var b batch
	b.add(&bucket.Op{Kind: bucket.Take, Key: "a", Shape: remote.ProbeTake("").Shape, Cost: 1, Count: 1})
	b.arrange()
	rows, err := at.server.Session().Query(t.Context(), "SELECT granted, reply, late, now FROM fastlimit.operate("+placeholders(numParameters)+")",
		b.fill(new(remote.Dating), 50*time.Millisecond, nil)...)
	if err == nil {
		err = b.read(rows)
	}
	if classify(err) != classLocked {
		t.Errorf("%v, want an end of the wait for the lock", err)
	}
	at.do("COMMIT")
}

// The clock is asked for when it is not known, and not while answers tell it.
func TestClockIsAskedFor(t *testing.T) {
	t.Parallel()
	var c Config
	started(t, &c)
	c.Workers = 1
	s := mustOpen(t, c)
	shape := mustShape(t, 10, time.Second, 1000)
	op := bucket.Op{Kind: bucket.Take, Key: "a", Shape: shape, Cost: 1, Count: 1, Patience: time.Minute}
	run := func() (statements uint64) {
		before := s.Stats().Statements
		for range 20 {
			if _, err := do(s, op); err != nil {
				t.Fatal(err)
			}
		}
		return s.Stats().Statements - before
	}
	run() // on connections that may be new
	if n := run(); n != 20 {
		t.Errorf("%d statements for 20 takes of a server that was just heard of", n)
	}
	s.driver.clocks.Forget()
	if n := run(); n != 21 {
		t.Errorf("%d statements for 20 takes and one look at the clock", n)
	}
}
