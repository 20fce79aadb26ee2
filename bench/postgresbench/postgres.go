//go:build linux

package postgresbench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"github.com/fastlimit/fastlimit/bench/defaults"
	"github.com/fastlimit/fastlimit/bench/proc"
	"github.com/fastlimit/fastlimit/bench/report"
	"github.com/fastlimit/fastlimit/bench/stand"
	"github.com/fastlimit/fastlimit/bench/storebench"
	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/pgstore"
	"github.com/fastlimit/fastlimit/internal/testkit/pgtest"
)

// Check reports an error if there is no PostgreSQL to start.
func (Options) Check() error {
	if _, err := pgtest.Find(); err != nil {
		return fmt.Errorf("bench: nothing to measure: %w", err)
	}
	return nil
}

var versionNumber = regexp.MustCompile(`\(PostgreSQL\) (\S+)`)

// Version is what the server says it is, "" where that is not known.
func (Options) Version(ctx context.Context) string {
	dir, err := pgtest.Find()
	if err != nil {
		return ""
	}
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if m := versionNumber.FindSubmatch(out); err == nil && m != nil {
		return string(m[1])
	}
	return ""
}

// settings are those of a server that keeps its data, as PostgreSQL has them by default,
// in place of the hasty ones of tests.
var settings = []string{"fsync=on", "shared_buffers=128MB", "max_connections=100", "autovacuum_naptime=1min", "max_wal_size=4GB"}

// target is a server with the schema, and the settings of a store in it.
type target struct {
	server *pgtest.Server
	config pgstore.Config
}

// Run starts a PostgreSQL and measures with it. The results are valid beside an error,
// for what was done until then.
func Run(ctx context.Context, o Options) (results []report.Result, err error) {
	o = defaults.Of(o)
	if err := o.Check(); err != nil {
		return nil, err
	}
	err = stand.On(func(s *stand.Stand) error {
		server := pgtest.StartOnDisk(s, settings...)
		t := &target{server, pgstore.Config{URL: server.URL("postgres", "postgres"), Timeout: time.Minute, Logger: slog.New(slog.DiscardHandler)}} // where no time is measured
		if err := pgstore.Init(ctx, t.config, pgstore.SchemaOptions{}); err != nil {
			return err
		}
		checks := storebench.Checks{
			Group: "postgres", Ways: []storebench.Way{storebench.ViaLimiter(t.asStore), storebench.ViaStore("pgstore", t.asStore), t.viaUpsert("off"), t.viaUpsert("on")},
			Checks: o.Checks, Rounds: o.Rounds,
			Cost: func(f func() error) (wall, here, store time.Duration, err error) { return proc.Cost(server.PID(), f) },
		}
		for i, part := range []struct {
			name string
			run  func(context.Context) ([]report.Result, error)
		}{
			{"flood", func(ctx context.Context) ([]report.Result, error) { return t.flood(ctx, o) }},
			{"exact checks", checks.Run},
			{"size of the table", func(ctx context.Context) ([]report.Result, error) { return t.sizes(ctx, o.Suspects) }},
		} {
			o.Progress.Tell(i, 3, "postgres: %s", part.name)
			more, err := part.run(ctx)
			results = append(results, more...)
			if err != nil {
				return err
			}
		}
		o.Progress.Tell(3, 3, "done")
		return nil
	})
	return results, err
}

func (t *target) open(ctx context.Context, timeout time.Duration) (*pgstore.Store, error) {
	c := t.config
	c.Timeout = timeout
	s, err := storebench.Connect(ctx, func(ctx context.Context) (*pgstore.Store, error) { return pgstore.Open(ctx, c) })
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	return s, nil
}

func (t *target) asStore(ctx context.Context, timeout time.Duration) (bucket.Store, error) {
	return t.open(ctx, timeout)
}

// flood sends one client's flood among others that conform. Beside what the store counts
// stand the statements, and the rows that PostgreSQL has then: of suspects only.
func (t *target) flood(ctx context.Context, o Options) ([]report.Result, error) {
	const patience = 20 * time.Millisecond // the default of a configuration
	store, err := t.open(ctx, patience)
	if err != nil {
		return nil, err
	}
	before := store.Stats().Statements
	f := storebench.Flood{Group: "postgres", Store: "PostgreSQL", Timeout: patience, Clients: o.Clients, PerSecond: o.Flood, Duration: o.Duration}
	results, err := f.Run(ctx, store, func() uint64 { return store.Stats().Takes })
	for i := range results {
		rows := t.server.Do("SELECT count(*) FROM fastlimit.bucket WHERE key <> '!probe'")
		results[i].Setup += fmt.Sprintf("; %d statements, %s rows", store.Stats().Statements-before, rows)
	}
	return results, errors.Join(err, storebench.CloseStore(store))
}
