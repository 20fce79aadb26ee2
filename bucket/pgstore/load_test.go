package pgstore

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/storetest/trial"
	"github.com/fastlimit/fastlimit/internal/testkit/pgtest"
)

// load is a load whose audit asks PostgreSQL.
type load struct {
	t   testing.TB
	all *trial.Load
}

func startLoad(t testing.TB, s *Store) load { return load{t, trial.StartLoad(t, s)} }

func (l load) progress(what string) { l.all.Progress(what) }

func (l load) end() { l.all.End() }

func (l load) granted() uint64 { return l.all.Granted() }

func (l load) failed() uint64 { return l.all.Failed.Load() }

func (l load) charged(server *pgtest.Server) uint64 { return l.all.Units(l.on(server)) }

func (l load) audit(server *pgtest.Server, lost bool) { l.all.Audit(l.on(server), lost) }

func (l load) on(server *pgtest.Server) trial.Charged {
	return func(key string, shape bucket.Shape) uint64 {
		unit := 1
		if shape.Algorithm() == bucket.LeakyBucket {
			unit = int(shape.Unit())
		}
		text := server.Do(fmt.Sprintf("SELECT (level + %d - 1) / %[1]d + previous + coalesce(cardinality(times), 0) FROM fastlimit.bucket WHERE key = '%s'", unit, key))
		if text == "" {
			return 0
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			l.t.Fatal(err)
		}
		return n
	}
}
