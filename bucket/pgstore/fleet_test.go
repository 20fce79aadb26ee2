package pgstore_test

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/pgstore"
	"github.com/fastlimit/fastlimit/internal/testkit/fleet"
	"github.com/fastlimit/fastlimit/internal/testkit/pgtest"
)

var fleetDecisions = flag.Int64("decisions", 0, "least decisions of the tests of nodes on one PostgreSQL, for each number of nodes")

// onPostgres is nodes that share a PostgreSQL.
func onPostgres() fleet.Fleet {
	return fleet.Fleet{Decisions: *fleetDecisions, Server: func(t testing.TB, timeout time.Duration) func() bucket.Store {
		c := pgstore.Config{URL: pgtest.Start(t).URL("postgres", "postgres"), Timeout: timeout, Logger: slog.New(slog.DiscardHandler)}
		if err := pgstore.Init(t.Context(), c, pgstore.SchemaOptions{}); err != nil {
			t.Fatal(err)
		}
		return func() bucket.Store {
			store, err := pgstore.Open(t.Context(), c)
			if err != nil && !errors.Is(err, bucket.ErrAway) { // as it is where the machine is slow at first
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = store.Close(context.Background()) })
			return store
		}
	}}
}

func TestWindowsOfNodesOnPostgres(t *testing.T) { t.Parallel(); onPostgres().Windows(t) }

func TestSlidingNodesOnPostgres(t *testing.T) { t.Parallel(); onPostgres().Sliding(t) }

func TestBucketsOfNodesOnPostgres(t *testing.T) { t.Parallel(); onPostgres().Buckets(t) }

func TestNamedRatesOnPostgres(t *testing.T) { t.Parallel(); onPostgres().Named(t) }

func TestWaitingSandwichOnPostgres(t *testing.T) { t.Parallel(); onPostgres().Waiting(t) }

// Those who wait are let in in their order, by each node.
func TestWaiting(t *testing.T) { t.Parallel(); onPostgres().Order(t) }

func TestLossyOnPostgres(t *testing.T) { t.Parallel(); onPostgres().Lossy(t, 1, fleet.LossyRules()...) }
