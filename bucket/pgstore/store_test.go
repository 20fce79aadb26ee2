package pgstore

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/storetest"
	"github.com/fastlimit/fastlimit/bucket/storetest/trial"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/leaks"
	"github.com/fastlimit/fastlimit/internal/testkit/pgtest"
)

func TestMain(m *testing.M) {
	testkit.AtOnce(4)
	os.Exit(leaks.ExitCode(m.Run()))
}

// logs is a log that tests read.
type logs struct{ testkit.Log }

func (l *logs) count(s string) int { return l.Count(s) }

// patient is a configuration for a noisy machine: only real faults are slow.
func patient(url string) Config {
	return Config{
		URL: url, Timeout: 2 * time.Second, RetryMin: 20 * time.Millisecond, RetryMax: 100 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	}
}

// started is a server with the schema of c, which gets its URL.
func started(t testing.TB, c *Config, settings ...string) *pgtest.Server {
	t.Helper()
	server := pgtest.Start(t, settings...)
	*c = patient(server.URL("postgres", "postgres"))
	mustInit(t, *c)
	return server
}

func mustInit(t testing.TB, c Config) {
	t.Helper()
	if err := Init(t.Context(), c, SchemaOptions{}); err != nil {
		t.Fatal(err)
	}
}

func mustOpen(t testing.TB, c Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, s)
	return s
}

func closeLater(t testing.TB, s *Store) {
	t.Helper()
	trial.CloseLater(t, s)
}

func mustShape(t testing.TB, n uint64, per time.Duration, burst uint64) bucket.Shape {
	t.Helper()
	return trial.MustShape(t, bucket.LeakyBucket, n, per, burst)
}

// openClocked opens a store that gives the server the time from clock. now is this
// machine's time.
func openClocked(t *testing.T, c Config, clock func() uint64, now func() time.Time) *Store {
	t.Helper()
	c.Prune = maxPrune // which goes by the server's own clock
	d, err := newDriver(c)
	if err != nil {
		t.Fatal(err)
	}
	d.clock, d.now = clock, now
	s, err := open(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, s)
	return s
}

func TestConformance(t *testing.T) {
	t.Parallel()
	var c Config
	started(t, &c, "max_connections=200")
	var all schemas
	storetest.Run(t, func(t *testing.T, clock *storetest.Clock) bucket.Store {
		own := all.lend(t, c)
		own.Workers = 1 // storetest stalls it
		return storetest.Dated(emptied(t, openClocked(t, own, clock.Now, clock.Local)), clock)
	})
}

// An unportable limit is refused for itself, and so is too long a key; the rest of the
// batch goes on.
func TestUnportableShape(t *testing.T) {
	t.Parallel()
	var c Config
	started(t, &c)
	s := mustOpen(t, c)
	trial.Unportable(t, s, s.Store.Stats)
	before := s.Stats()
	ordinary := mustShape(t, 1, time.Second, 1)
	if _, err := do(s, bucket.Op{Kind: bucket.Take, Key: strings.Repeat("x", 5000), Shape: ordinary, Cost: 1, Count: 1}); classify(err) != classOther {
		t.Errorf("%v, want an error about the key", err)
	}
	if st := s.Stats(); st.State != "closed" || st.Errors["other"]-before.Errors["other"] != 1 {
		t.Errorf("state %s, errors %v", st.State, st.Errors)
	}
}

// A log too long for a row is refused.
func TestTooLongLog(t *testing.T) {
	t.Parallel()
	var c Config
	started(t, &c)
	trial.TooLongLog(t, mustOpen(t, c))
}

func TestStatsCount(t *testing.T) {
	t.Parallel()
	var c Config
	started(t, &c)
	s := mustOpen(t, c)
	trial.StatsCount(t, s, len(classes), func() trial.Counted {
		st := s.Stats()
		return trial.Counted{Stats: st.Stats, Sent: st.Statements, Connections: st.Pool.Total, ClockOffset: st.ClockOffset}
	})
}

// do runs one operation and waits for it.
func do(s *Store, op bucket.Op) (bucket.Reply, error) { return storetest.Do(s, op) }
