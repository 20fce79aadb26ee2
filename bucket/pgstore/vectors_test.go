package pgstore

import (
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/storetest/trial"
	"github.com/fastlimit/fastlimit/internal/testkit/pgtest"
	"github.com/fastlimit/fastlimit/internal/testkit/vectors"
)

// Every vector of the limiters that people come from, through the library on a
// real PostgreSQL. Time is the bubble's, also for the function; waits for the server
// take none of it.
func TestVectors(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	var all schemas
	vectors.Run(t, func(t *testing.T) (bucket.Store, func()) {
		c := all.lend(t, patient(server.URL("postgres", "postgres")))
		c.Prune, c.Workers = maxPrune, 1
		d, err := newDriver(c)
		if err != nil {
			t.Fatal(err)
		}
		d.clock = func() uint64 { return uint64(time.Now().UnixMicro()) }
		s, err := open(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		trial.CloseLater(t, s)
		// A reading of the clock from before a sleep allows for drift, which is
		// more than the patience of a take here.
		return emptied(t, s), d.clocks.Forget
	})
}
