package pgstore

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// fillTable makes the table larger than a segment of the log and returns its size. Its
// rows are as small as a row can be, so that their pages have no room for one more. Nobody
// else may write meanwhile: PostgreSQL adds many pages at once where several want one.
func (s *site) fillTable() uint64 {
	s.t.Helper()
	s.do("INSERT INTO fastlimit.bucket SELECT convert_to(to_hex(i), 'UTF8'), 0, 0, 0, 0, 0, 0, NULL, 9e15 FROM generate_series(1, 45000) i")
	size := s.tableSize()
	if size < 2<<20 {
		s.t.Fatalf("a table of %d bytes", size)
	}
	return size
}

func (s *site) tableSize() uint64 {
	s.t.Helper()
	size, err := strconv.ParseUint(s.server.Do("SELECT pg_relation_size('fastlimit.bucket')"), 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return size
}

// askers is so many that hardly a batch is without a new suspect.
const askers = 4

// A real PostgreSQL whose disk is full, under load and with new suspects all the time,
// each of which wants a row: the errors say so, the breaker opens, and the store recovers
// by itself when there is room. Denials need none; nothing is lost or charged twice.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	at := newSite(t)
	l := new(logs)
	at.fillTable()
	c := brisk(at.url(), l)
	c.Workers = 1 // who are not in each other's way
	s := openBrisk(t, c)
	load := startLoad(t, s)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%+v\n%s", s.Stats(), l)
		}
	})
	load.progress("works at first")
	full := mustShape(t, 1, 24*time.Hour, 1)
	take := func(key string) (bucket.Reply, error) {
		return do(s, bucket.Op{Kind: bucket.Take, Key: key, Shape: full, Cost: full.Unit(), Count: 1})
	}
	if _, err := take("denied"); err != nil {
		t.Fatal(err)
	}
	// One page and a half: a file that has outgrown the limit meanwhile would fail in another
	// way, as one that is too large.
	at.server.FillDisk(at.tableSize() + 8192 + 4096)
	stop, suspects := make(chan struct{}), sync.WaitGroup{}
	var charged atomic.Uint64
	for asker := range askers {
		suspects.Go(func() {
			for i := asker; ; i += askers {
				select {
				case <-stop:
					return
				default:
				}
				switch r, err := take("new" + strconv.Itoa(i)); {
				case err == nil:
					charged.Add(r.Granted)
				case errors.Is(err, bucket.ErrAway), errors.Is(err, bucket.ErrBusy):
					time.Sleep(time.Millisecond)
				default:
					t.Errorf("a new suspect: %v", err)
				}
			}
		})
	}
	redistest.Eventually(t, "the fault shows", func() bool {
		st := s.Stats()
		return st.Errors["disk"] > 0 && st.Trips > 0
	})
	redistest.Eventually(t, "a denial, which writes nothing", func() bool {
		var denied error
		s.driver.Exec(t.Context(), []*bucket.Op{{Kind: bucket.Take, Key: "denied", Shape: full, Cost: full.Unit(), Count: 1}},
			func(_ *bucket.Op, r bucket.Reply, err error) { denied = errors.Join(err, grantedNone(r)) })
		return denied == nil // it may take longer than the timeout, but no room
	})
	at.server.EmptyDisk()
	redistest.Eventually(t, "the breaker closes", func() bool { return s.Stats().State == "closed" })
	load.progress("works again")
	rows := func() string {
		return at.server.Do("SELECT count(*) FROM fastlimit.bucket WHERE convert_from(key, 'UTF8') LIKE 'new%'")
	}
	from := rows()
	redistest.Eventually(t, "new suspects get rows", func() bool { return rows() != from })
	close(stop)
	suspects.Wait()
	load.end()
	load.audit(at.server, false)
	// A batch without an answer has at most one new suspect of each asker, which PostgreSQL may
	// have charged for all that.
	errs := s.Stats().Errors
	granted, unknown := charged.Load(), askers*(errs["timeout"]+errs["late"]+errs["canceled"]+errs["reset"])
	if got, err := strconv.ParseUint(rows(), 10, 64); err != nil || got < granted || got > granted+unknown {
		t.Errorf("%d new suspects were granted, %d are unknown, %d have a row", granted, unknown, got)
	}
}

func grantedNone(r bucket.Reply) error {
	if r.Granted != 0 {
		return errors.New("granted beyond the limit")
	}
	return nil
}

// While the disk is full each rule's failure policy decides about new suspects, and the
// store does when there is room.
func TestFullDiskPolicies(t *testing.T) {
	t.Parallel()
	at := newSite(t)
	c := patient(at.url())
	s := mustOpen(t, c)
	cfg := fastlimit.Config{Store: s, StoreTimeout: c.Timeout, Memory: 8 << 20}
	policies := []fastlimit.OnFailure{fastlimit.FailLocal, fastlimit.FailOpen, fastlimit.FailClosed}
	for _, p := range policies {
		cfg.Rules = append(cfg.Rules, fastlimit.RuleConfig{Name: p.String(), Rate: fastlimit.Rate{N: 1, Per: time.Hour}, Burst: 1, Strict: true, OnFailure: p})
	}
	lim, err := fastlimit.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	// How many of two requests of each new suspect are admitted.
	twice := func(suspect int) (admitted [3]int, stages [3]fastlimit.Stage) {
		for i, r := range lim.Rules() {
			for range 2 {
				d := r.Take(t.Context(), r.BytesKey([]byte(strconv.Itoa(suspect))), 1)
				if d.Allowed {
					admitted[i]++
				}
				if d.Allowed || stages[i] == 0 {
					stages[i] = d.Stage
				}
			}
		}
		return admitted, stages
	}
	want := func(what string, got [3]int, want [3]int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d of 2 admitted for policies %v, want %d", what, got, policies, want)
		}
	}
	at.server.FillDisk(at.fillTable() + 4096)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%+v", s.Stats())
		}
	})
	n := 0
	redistest.Eventually(t, "the fault shows", func() bool {
		n++
		twice(n)
		st := s.Stats()
		return st.Errors["disk"] > 0 && st.Trips > 0
	})
	// The breaker closes now and then, as probes find room on a page. As long as it is open,
	// the policies decide, without exception.
	var admitted [3]int
	redistest.Eventually(t, "the breaker is not closed", func() bool {
		n++
		before := s.Stats()
		admitted, _ = twice(n)
		after := s.Stats()
		// Half open it asks the store as little: only the prober does.
		return before.State != "closed" && after.State != "closed" && before.Trips == after.Trips
	})
	want("a full disk", admitted, [3]int{1, 2, 0})
	at.server.EmptyDisk()
	redistest.Eventually(t, "the store decides again", func() bool {
		n++
		var stages [3]fastlimit.Stage
		admitted, stages = twice(n)
		return stages == [3]fastlimit.Stage{fastlimit.StageExact, fastlimit.StageExact, fastlimit.StageExact}
	})
	want("room again", admitted, [3]int{1, 1, 1})
}
