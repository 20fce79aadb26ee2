package pgstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/fastlimit/fastlimit/bucket/step"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Store is a [bucket.Store] in PostgreSQL. It is safe for concurrent use. The zero
// value is not usable: call [Open].
type Store struct {
	*remote.Store // queue, workers and breaker, which call driver

	driver *driver
	prune  pruner
}

// Open connects and checks. If the configuration is wrong it returns no store; a schema of
// another version is wrong, too, and so is a standby as the only server. If PostgreSQL is
// merely unavailable it returns an error that matches [bucket.ErrAway] and also a store,
// whose breaker is open and which keeps trying: the caller decides whether to use it.
// Errors of PostgreSQL and of the connection are a [remote.Error].
func Open(ctx context.Context, c Config) (*Store, error) {
	d, err := newDriver(c)
	if err != nil {
		return nil, err
	}
	return open(ctx, d)
}

func open(ctx context.Context, d *driver) (*Store, error) {
	err := d.check(ctx)
	// A lone standby may never be promoted, so waiting would not help.
	standby := classify(err) == classReadOnly && len(d.pool.Config().ConnConfig.Fallbacks) == 0
	if err != nil && (!errors.Is(err, bucket.ErrAway) || standby) {
		_ = d.Close()
		return nil, err
	}
	c := d.config.shared()
	c.Name, c.Target, c.Classes = "postgres", d.target(), classes
	s := &Store{Store: remote.Start(ctx, d, c, err), driver: d}
	s.prune.start(s)
	return s, err
}

// Close implements [bucket.Store]: see [remote.Store.Close].
func (s *Store) Close(ctx context.Context) error {
	s.prune.end()
	return s.Store.Close(ctx)
}

// driver is the [remote.Driver] of PostgreSQL.
type driver struct {
	config Config // with defaults
	pool   *pgxpool.Pool
	login  atomic.Pointer[pgx.ConnConfig] // nil: the pool's
	sql    statements
	clock  func() uint64 // nil except in tests: µs that replace the server's clock
	now    func() time.Time
	clocks remote.Clocks

	batches  sync.Pool // of *batch
	counters counters
}

// statements are those of a schema.
type statements struct{ operate, micros, version, prune string }

func newDriver(c Config) (*driver, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.WithDefaults()
	pc, err := c.pool()
	if err != nil {
		return nil, err
	}
	return c.connect(pc)
}

// connect returns the driver of a valid configuration with defaults.
func (c Config) connect(pc *pgxpool.Config) (d *driver, err error) {
	d = &driver{config: c, now: time.Now}
	d.batches.New = func() any { return new(batch) }
	pc.BeforeConnect, pc.AfterConnect = d.logIn, d.connected
	// It connects in the background, so it does not fail if no server answers.
	if d.pool, err = pgxpool.NewWithConfig(context.Background(), pc); err != nil {
		return nil, fmt.Errorf("fastlimit/pgstore: %w", err)
	}
	d.sql = statements{
		operate: "SELECT granted, reply, late, now FROM " + c.Schema + ".operate(" + placeholders(numParameters) + ")",
		micros:  "SELECT " + c.Schema + ".micros()",
		version: "SELECT " + c.Schema + ".version()",
		prune:   "SELECT deleted, next FROM " + c.Schema + ".prune($1, $2)",
	}
	return d, nil
}

// connected prepares a new connection: it may lead to another server, with another clock.
//
// The function must see what others committed while it waited for its locks, so it runs at
// READ COMMITTED. A role may have another default. Setting the level in any case would
// change connections that a pooler shares with others.
func (d *driver) connected(ctx context.Context, c *pgx.Conn) (err error) {
	defer recovered(&err)
	d.clocks.Forget()
	ctx, cancel := context.WithTimeout(ctx, d.config.dialTimeout())
	defer cancel()
	var level string
	err = c.QueryRow(ctx, "SELECT current_setting('transaction_isolation')").Scan(&level)
	if err == nil && level != "read committed" {
		_, err = c.Exec(ctx, "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED")
	}
	return err
}

func placeholders(n int) string {
	s := make([]string, n)
	for i := range s {
		s[i] = "$" + strconv.Itoa(i+1)
	}
	return strings.Join(s, ", ")
}

// target names the servers for logs, without secrets.
func (d *driver) target() string {
	c := d.pool.Config().ConnConfig
	hosts := []string{net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))}
	for _, f := range c.Fallbacks {
		if host := net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port))); host != hosts[len(hosts)-1] {
			hosts = append(hosts, host) // otherwise it is the same server, without TLS
		}
	}
	return strings.Join(hosts, ",") + "/" + c.Database
}

// Runs implements [remote.Driver]. The functions repeat package step.
func (*driver) Runs(a bucket.Algorithm) bool { return step.Runs(a) }

// Classify implements [remote.Driver].
func (*driver) Classify(err error) *remote.Error { return asError(err) }

// Close implements [remote.Driver].
func (d *driver) Close() error { d.pool.Close(); return nil }
