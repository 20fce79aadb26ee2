// Package postgresbench measures what exact buckets in PostgreSQL cost: how often it is
// asked while one client floods among many that conform (P4), how many checks get done
// beside the usual way of one upsert per request, and how large the table becomes.
package postgresbench

import (
	"time"

	"github.com/fastlimit/fastlimit/bench/report"
)

// Options configure [Run]. Zero fields mean defaults.
type Options struct {
	Clients  int             `default:"100000"`  // that conform
	Flood    float64         `default:"20000"`   // requests per second of the one that does not; the others send as much together
	Duration time.Duration   `default:"4s"`      // of the flood
	Checks   int             `default:"5000"`    // in a round of exact checks
	Rounds   int             `default:"5"`       // of each way to check
	Suspects int             `default:"1000000"` // whose rows the table has, at first and again after they have been pruned
	Progress report.Progress `kong:"-"`
}
