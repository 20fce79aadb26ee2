package redisstore

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
	"github.com/fastlimit/fastlimit/internal/testkit/redisfault"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

func TestMain(m *testing.M) {
	redisfault.UseNames()
	testkit.AtOnce(8)
	os.Exit(leaks.ExitCode(m.Run()))
}

// clocked is the script with the time as its last two arguments.
var clocked = newScript(replaceOnce(operate, "redis.call('TIME')", "{ ARGV[#ARGV - 1], ARGV[#ARGV] }"))

// timeless is a clocked script whose keys outlive the test: Redis expires by
// its own clock, however long a test that stands still in time may take.
var timeless = newScript(replaceOnce(clocked.source, "lasts - lasts % 1 + 2", "86400000"))

func replaceOnce(source, from, to string) string {
	if strings.Count(source, from) != 1 {
		panic("BUG: want once in a script: " + from)
	}
	return strings.Replace(source, from, to, 1)
}

// patient is a configuration for a noisy machine: only real faults are slow.
func patient(addr string) Config {
	return Config{
		URL: "redis://" + addr, Timeout: 2 * time.Second, RetryMin: 20 * time.Millisecond, RetryMax: 100 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	}
}

func mustOpen(t testing.TB, c Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	trial.CloseLater(t, s)
	return s
}

func mustShape(t testing.TB, n uint64, per time.Duration, burst uint64) bucket.Shape {
	t.Helper()
	return trial.MustShape(t, bucket.LeakyBucket, n, per, burst)
}

// openClocked opens a store whose script takes the time from clock. now is this
// machine's time.
func openClocked(t *testing.T, c Config, sc *script, clock func() uint64, now func() time.Time) *Store {
	t.Helper()
	d, err := newDriver(c, sc)
	if err != nil {
		t.Fatal(err)
	}
	d.clock, d.now = clock, now
	s, err := open(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	trial.CloseLater(t, s)
	return s
}

func TestConformance(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	storetest.Run(t, func(t *testing.T, clock *storetest.Clock) bucket.Store {
		c := patient(server.Addr)
		c.KeyPrefix = t.Name() + ":"
		c.Workers = 1 // storetest stalls it
		return storetest.Dated(openClocked(t, c, timeless, clock.Now, clock.Local), clock)
	})
}

// An unportable limit is refused for itself; the rest of the batch goes on.
func TestUnportableShape(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, patient(redistest.Start(t).Addr))
	trial.Unportable(t, s, s.Store.Stats)
}

// A log too long for the script is refused.
func TestTooLongLog(t *testing.T) {
	t.Parallel()
	trial.TooLongLog(t, mustOpen(t, patient(redistest.Start(t).Addr)))
}

func TestStatsCount(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, patient(redistest.Start(t).Addr))
	trial.StatsCount(t, s, len(classes), func() trial.Counted {
		st := s.Stats()
		return trial.Counted{Stats: st.Stats, Sent: st.Commands, Connections: st.Pool.Total, ClockOffset: st.ClockOffset}
	})
}

// Keys live until their bucket has drained, by the server's own clock.
func TestExpiry(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := mustOpen(t, patient(server.Addr))
	shape := mustShape(t, 10, time.Second, 1000)
	op := bucket.Op{Kind: bucket.Take, Key: "a", Shape: shape, Cost: shape.Unit(), Count: 600}
	if r, err := do(s, op); err != nil || r.Granted != 600 {
		t.Fatalf("%+v, %v", r, err)
	}
	ttl := server.Do("PTTL", "fastlimit:a")
	if len(ttl) != 5 || ttl > "60002" {
		t.Errorf("PTTL = %s, want just below 60002", ttl)
	}
	op.Kind, op.Cost = bucket.Refund, 600*shape.Unit()
	if r, err := do(s, op); err != nil || r.Level != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	// What is left is that something was given back, for as long as anybody
	// may know of the level before: twice the 1000 units that fit.
	if ttl := server.Do("PTTL", "fastlimit:a"); len(ttl) != 6 || ttl > "200002" || ttl < "19" {
		t.Errorf("PTTL = %s after a refund of all, want just below 200002", ttl)
	}
	fast := mustShape(t, 1000, time.Second, 1)
	if _, err := do(s, bucket.Op{Kind: bucket.Take, Key: "b", Shape: fast, Cost: fast.Unit(), Count: 1}); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "the key is gone", func() bool { return server.Do("EXISTS", "fastlimit:b") == "0" })
}

// do runs one operation and waits for it.
func do(s *Store, op bucket.Op) (bucket.Reply, error) { return storetest.Do(s, op) }
