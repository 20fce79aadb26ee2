package pgstore

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Config names a PostgreSQL and how long to wait for it.
type Config struct {
	// URL is postgres://[user[:password]@]host[:port][,host…]/database[?sslmode=…].
	// Parameters are those of libpq; special characters of a password are
	// percent-encoded. With several hosts, target_session_attrs=read-write follows the
	// primary.
	URL string

	// Schema holds the table and the functions: see [Init]. Default "fastlimit".
	Schema string

	// Timeout is how long an answer may take before it counts as slow, and how long a
	// caller waits. Set it to at least 5 times the round trip at the 99.9th
	// percentile. Default 20 ms.
	//
	// A statement is given up after 5·Timeout, at least 100 ms, its wait for locks
	// after half of that, and an attempt to connect after 40·Timeout, at least 1 s.
	Timeout time.Duration

	// Workers is the number of statements in flight, each on a separate connection. There
	// are two more connections, for probes and for pruning. Default 2.
	Workers int

	// Queue is how many operations may wait for a worker; any more are refused with
	// [bucket.ErrBusy]. Default 2048.
	Queue int

	// RetryMin and RetryMax bound the pause between attempts to reach a PostgreSQL that is
	// unavailable; see package remote. Defaults 100 ms and 2 s.
	RetryMin, RetryMax time.Duration

	// Prune is the pause between two searches for expired rows. Default 1 minute.
	Prune time.Duration

	// Logger logs changes of state. Default [slog.Default].
	Logger *slog.Logger
}

const (
	defaultTimeout = 20 * time.Millisecond
	defaultSchema  = "fastlimit"
	defaultPrune   = time.Minute
	minIO          = 100 * time.Millisecond
	minDial        = time.Second
	maxPrune       = 24 * time.Hour
)

// Bounds of a [Config].
const (
	MaxWorkers = remote.MaxWorkers
	MaxQueue   = remote.MaxQueue
)

// WithDefaults returns the configuration with its defaults filled in.
func (c Config) WithDefaults() Config {
	c.Schema = cmp.Or(c.Schema, defaultSchema)
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	c.Workers = cmp.Or(c.Workers, remote.DefaultWorkers)
	c.Queue = cmp.Or(c.Queue, remote.DefaultQueue)
	c.RetryMin = cmp.Or(c.RetryMin, remote.ShortestRetry)
	c.RetryMax = cmp.Or(c.RetryMax, remote.LongestRetry)
	c.Prune = cmp.Or(c.Prune, defaultPrune)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// shared returns the settings that every driver has.
func (c *Config) shared() remote.Config {
	return remote.Config{Timeout: c.Timeout, Workers: c.Workers, Queue: c.Queue, RetryMin: c.RetryMin, RetryMax: c.RetryMax, Logger: c.Logger}
}

func (c *Config) ioTimeout() time.Duration   { return max(5*c.Timeout, minIO) }
func (c *Config) dialTimeout() time.Duration { return max(40*c.Timeout, minDial) }

// lockTimeout bounds a statement's wait for locks: the server gives up before the client
// does.
func (c *Config) lockTimeout() time.Duration { return c.ioTimeout() / 2 }

// batchTimeout bounds one batch: the query for the clock, the wait for a connection and the
// statement. Connecting may take longer and continues in the background. Otherwise a server
// that swallows packets would make batches fail too rarely to open the breaker.
func (c *Config) batchTimeout() time.Duration { return 3 * c.ioTimeout() }

// startTimeout bounds each step of the checks before anything depends on them.
func (c *Config) startTimeout() time.Duration { return c.dialTimeout() + c.batchTimeout() }

// pool returns the settings of connections of a valid configuration.
func (c *Config) pool() (*pgxpool.Config, error) {
	pc, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, c.Validate() // err has the URL in it
	}
	pc.MaxConns = int32(c.Workers + extraConns) // at most MaxWorkers
	pc.MinConns = int32(c.Workers)
	pc.ConnConfig.ConnectTimeout = c.dialTimeout()
	// A ping would cost every lone operation a round trip. A connection that broke while it
	// was idle fails one batch.
	pc.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	pc.ConnConfig.BuildFrontend = newFrontend
	if p := pc.ConnConfig.RuntimeParams; p["application_name"] == "" {
		p["application_name"] = "fastlimit"
	}
	return pc, nil
}

// extraConns are for probes and for pruning.
const extraConns = 2
