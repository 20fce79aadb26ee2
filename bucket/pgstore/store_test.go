package pgstore

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/storetest"
	"github.com/fastlimit/fastlimit/internal/testkit/pgtest"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// The one goroutine that starts servers lives as long as they do.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/fastlimit/fastlimit/internal/testkit/redistest.Spawn"))
}

// logs is a log that tests read. It is safe for concurrent use.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logs) count(s string) int { return strings.Count(l.String(), s) }

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
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

func mustShape(t testing.TB, n uint64, per time.Duration, burst uint64) bucket.Shape {
	t.Helper()
	s, err := bucket.NewShape(n, per, burst)
	if err != nil {
		t.Fatal(err)
	}
	return s
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
	server := started(t, &c, "max_connections=200")
	var databases sync.Mutex
	n := 0
	storetest.Run(t, func(t *testing.T, clock *storetest.Clock) bucket.Store {
		databases.Lock()
		n++
		own := c
		own.Schema = "fastlimit" + string(rune('a'+n/26)) + string(rune('a'+n%26))
		databases.Unlock()
		own.Workers = 1 // storetest stalls it
		mustInit(t, own)
		_ = server
		return storetest.Dated(openClocked(t, own, clock.Now, clock.Local), clock)
	})
}

// An unportable shape is refused for itself; the rest of the batch goes on.
func TestUnportableShape(t *testing.T) {
	t.Parallel()
	var c Config
	started(t, &c)
	s := mustOpen(t, c)
	big := mustShape(t, 1, 24*time.Hour, 10_000_000)
	if _, err := do(s, bucket.Op{Kind: bucket.Take, Key: "a", Shape: big, Cost: big.Unit(), Count: 1}); classify(err) != classOther {
		t.Errorf("%v, want an error about the limit", err)
	}
	if _, err := do(s, bucket.Op{Kind: bucket.Reset, Key: "a", Shape: big}); err != nil {
		t.Errorf("a reset: %v", err)
	}
	ordinary := mustShape(t, 1, time.Second, 1)
	if _, err := do(s, bucket.Op{Kind: bucket.Take, Key: strings.Repeat("x", 5000), Shape: ordinary, Cost: 1, Count: 1}); classify(err) != classOther {
		t.Errorf("%v, want an error about the key", err)
	}
	if st := s.Stats(); st.State != "closed" || st.Errors["other"] != 2 {
		t.Errorf("state %s, errors %v", st.State, st.Errors)
	}
}

func TestStatsCount(t *testing.T) {
	t.Parallel()
	var c Config
	started(t, &c)
	s := mustOpen(t, c)
	before := s.Stats()
	shape := mustShape(t, 10, time.Second, 5)
	for range 10 {
		if _, err := do(s, bucket.Op{Kind: bucket.Take, Key: "a", Shape: shape, Cost: shape.Unit(), Count: 1}); err != nil {
			t.Fatal(err)
		}
	}
	// A batch is counted after its operations are done.
	redistest.Eventually(t, "the last batch to be counted", func() bool { return s.Stats().Pipelines == 10 })
	st := s.Stats()
	if st.Takes != 10 || st.Pipelines != 10 || st.Statements-before.Statements != 10 || st.RoundTripSum <= 0 {
		t.Errorf("%d takes, %d pipelines, %d statements, %v", st.Takes, st.Pipelines, st.Statements-before.Statements, st.RoundTripSum)
	}
	if len(st.Errors) != len(classes) || st.Pool.Total == 0 || st.State != "closed" {
		t.Errorf("%+v", st)
	}
	if off := st.ClockOffset; off > time.Minute || off < -time.Minute {
		t.Errorf("ClockOffset = %v on the same machine", off)
	}
}

// do runs one operation and waits for it.
func do(s *Store, op bucket.Op) (bucket.Reply, error) { return storetest.Do(s, op) }
