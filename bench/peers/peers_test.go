package peers

import (
	"io"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bench/inproc"
	"github.com/fastlimit/fastlimit/bench/oracle"
	"github.com/fastlimit/fastlimit/bench/proc"
	"github.com/fastlimit/fastlimit/bench/redisbench"
	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

func TestMain(m *testing.M) {
	inproc.RunChild(func([]string) []inproc.Contender { return All("") })
	os.Exit(m.Run())
}

// TestPeers: every adapter admits the burst, denies what comes at once after
// it, tells clients apart, and admits again when its window or bucket has
// drained. The rule is slow, so that the time that the test takes is nothing
// to it; those that are told the time are told that a day has passed.
func TestPeers(t *testing.T) {
	t.Parallel()
	rule := oracle.Rule{Rate: fastlimit.Rate{N: 3, Per: time.Hour}, Burst: 5}
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	for _, c := range append(All(""), inproc.Reference(), inproc.Fastlimit()) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if c.Setup == "" {
				t.Error("Setup is empty")
			}
			l, err := c.New(rule)
			if err != nil {
				t.Fatal(err)
			}
			admitted := 0
			for range 100 {
				if l.Allow(a, time.Second) {
					admitted++
				}
			}
			// First-seen requests and suspicion thresholds may add to the burst.
			if admitted < 5 || admitted > 9 {
				t.Errorf("admitted %d of a burst of 5", admitted)
			}
			if !l.Allow(b, time.Second) {
				t.Error("another client is denied")
			}
			if !c.OwnClock && !l.Allow(a, 24*time.Hour) {
				t.Error("denied a day later")
			}
			if closer, ok := l.(interface{ Close() error }); ok {
				if err := closer.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestOneClient: what peerbench measures as the decisions of one client that is admitted, or
// denied, are such, on a Redis too. The limit is 5 in 100 minutes, so that an edge of a window may
// double it and time adds nothing else.
func TestOneClient(t *testing.T) {
	t.Parallel()
	outOfReach := oracle.Rule{Rate: fastlimit.Rate{N: 1e9, Per: time.Second}, Burst: 2e9}
	tight := oracle.Rule{Rate: fastlimit.Rate{N: 3, Per: time.Hour}, Burst: 5}
	client := netip.MustParseAddr("192.0.2.1")
	count := func(c inproc.Contender, r oracle.Rule) (n int) {
		l, err := c.New(r)
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		for i := range 100 {
			if l.Allow(client, time.Duration(i)*time.Microsecond) {
				n++
			}
		}
		if f, ok := l.(inproc.Failer); ok && f.Err() != nil {
			t.Errorf("%s: %v", c.Name, f.Err())
		}
		if closer, ok := l.(io.Closer); ok {
			if err := closer.Close(); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
		}
		return n
	}
	err := redisbench.WithServer(t.Context(), "redis-server", func(_ *proc.Child, addr string) error {
		url := "redis://" + addr + "/0"
		for _, c := range append(All(url), redisbench.Algorithms(url)...) {
			if n := count(c, outOfReach); n != 100 {
				t.Errorf("%s: %d of 100 admitted, though the limit is out of reach", c.Name, n)
			}
			if n := count(c, tight); n < 5 || n > 10 {
				t.Errorf("%s: %d of 100 admitted, want the burst of 5", c.Name, n)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestMemory: measuring processes know the peers; those that are told the time
// need no more of it than they take.
func TestMemory(t *testing.T) {
	t.Parallel()
	results, err := inproc.Memory(t.Context(), inproc.MemoryOptions{
		Options: inproc.Options{Contenders: []inproc.Contender{Throttled(), TwoWindows()}}, Keys: []int64{1e4},
	})
	if err != nil || len(results) != 4 {
		t.Fatalf("%d results, %v", len(results), err)
	}
	for _, r := range results {
		if r.Error != "" || r.RSSBytes == nil {
			t.Errorf("%s, %s: %q", r.Workload, r.Limiter, r.Error)
		}
	}
}

// TestRedisRateNeedsAServer: an unreachable one is an error before anything is
// measured.
func TestRedisRateNeedsAServer(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"redis://127.0.0.1:1/0?dial_timeout=100ms&max_retries=-1", "nonsense"} {
		if _, err := RedisRate(url).New(oracle.Rule{}); err == nil {
			t.Errorf("%s: no error", url)
		}
	}
}

// TestRedisRateReportsErrors: decisions that failed are not silently denials.
func TestRedisRateReportsErrors(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	l := &redisRate{client: client, limiter: redis_rate.NewLimiter(client)}
	if err := l.Err(); err != nil {
		t.Errorf("before any decision: %v", err)
	}
	if l.Allow(netip.MustParseAddr("192.0.2.1"), 0) || l.Err() == nil {
		t.Errorf("without a server: error %v", l.Err())
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
