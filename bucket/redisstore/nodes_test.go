package redisstore_test

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/redisstore"
	"github.com/fastlimit/fastlimit/internal/testkit/fleet"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

var fleetDecisions = flag.Int64("decisions", 0, "least decisions of the tests of nodes on one Redis, for each number of nodes")

// onRedis is nodes that share a Redis.
func onRedis() fleet.Fleet {
	return fleet.Fleet{Decisions: *fleetDecisions, Server: func(t testing.TB, timeout time.Duration) func() bucket.Store {
		server := redistest.Start(t)
		return func() bucket.Store {
			store, err := redisstore.Open(t.Context(), redisstore.Config{URL: "redis://" + server.Addr, Timeout: timeout, Logger: slog.New(slog.DiscardHandler)})
			if err != nil && !errors.Is(err, bucket.ErrAway) { // as it is where the machine is slow at first
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = store.Close(context.Background()) })
			return store
		}
	}}
}

func TestWindowsOfNodesOnRedis(t *testing.T) { t.Parallel(); onRedis().Windows(t) }

func TestSlidingNodesOnRedis(t *testing.T) { t.Parallel(); onRedis().Sliding(t) }

func TestBucketsOfNodesOnRedis(t *testing.T) { t.Parallel(); onRedis().Buckets(t) }

func TestNamedRatesOnRedis(t *testing.T) { t.Parallel(); onRedis().Named(t) }

func TestWaitingSandwichOnRedis(t *testing.T) { t.Parallel(); onRedis().Waiting(t) }

// Those who wait are let in in their order, by each node.
func TestWaiting(t *testing.T) { t.Parallel(); onRedis().Order(t) }

func TestLossyOnRedis(t *testing.T) { t.Parallel(); onRedis().Lossy(t, 1, fleet.LossyRules()...) }
