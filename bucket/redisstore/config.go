package redisstore

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/fastlimit/fastlimit/internal/field"
	"github.com/fastlimit/fastlimit/internal/namedfile"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Config names a Redis and how long to wait for it. Give URL or Addrs.
type Config struct {
	// URL is redis://[user:password@]host[:port][/db], rediss://… for TLS, or
	// unix://[user:password@]/path/to.sock[?db=N]. Special characters of a
	// password are percent-encoded.
	URL string

	// Addrs is host:port of one server, of the sentinels if MasterName is
	// set, or of some nodes of a cluster if Cluster is.
	Addrs      []string
	MasterName string // the primary as Sentinel knows it
	Cluster    bool   // Redis Cluster, with URL too
	DB         int    // not in a cluster

	Username, Password                 string // override those of URL
	SentinelUsername, SentinelPassword string

	// TLS encrypts connections even if URL does not say rediss; CAFile and
	// CertFile do so too. CAFile replaces the system's roots. CertFile and KeyFile
	// are the client's certificate.
	TLS                       bool
	CAFile, CertFile, KeyFile string
	ServerName                string // default: the host

	// KeyPrefix precedes every key. Default "fastlimit:".
	KeyPrefix string

	// Timeout is how long an answer may take before it counts as slow, and how long a
	// caller waits. Set it to at least 5 times the round trip at the 99.9th percentile: a
	// breaker that trips on noise gives up exactness, while one that trips late costs only
	// late answers. Default 5 ms.
	//
	// A connection is given up after 5·Timeout, at least 25 ms, so that late
	// answers still arrive, and an attempt to connect after 40·Timeout, at
	// least 200 ms.
	Timeout time.Duration

	// Workers is the number of pipelines in flight, each on a separate connection. More of
	// them hide the round trip; fewer make larger batches, which save work. w workers carry
	// out at most w·128/RTT operations per second: 500,000 for the default of 2 at 0.5 ms.
	Workers int

	// Queue is how many operations may wait for a worker; any more are refused with
	// [bucket.ErrBusy]. An operation that waits longer than Timeout is late, so
	// rate·Timeout is enough. Default 2048: 400,000/s at 5 ms.
	Queue int

	// RetryMin and RetryMax bound the pause between attempts to reach a Redis that is
	// unavailable. It doubles from one to the other, and a quarter of it is random. After
	// an error of configuration every pause is RetryMax. Defaults 100 ms and 2 s.
	RetryMin, RetryMax time.Duration

	// Logger logs changes of state. Default [slog.Default].
	Logger *slog.Logger
}

const (
	defaultTimeout = 5 * time.Millisecond
	defaultPrefix  = "fastlimit:"
	minIO          = 25 * time.Millisecond
	minDial        = 200 * time.Millisecond
)

// Bounds of a [Config].
const (
	MaxWorkers = remote.MaxWorkers
	MaxQueue   = remote.MaxQueue
)

// WithDefaults returns the configuration with its defaults filled in.
func (c Config) WithDefaults() Config {
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	c.Workers = cmp.Or(c.Workers, remote.DefaultWorkers)
	c.Queue = cmp.Or(c.Queue, remote.DefaultQueue)
	c.KeyPrefix = cmp.Or(c.KeyPrefix, defaultPrefix)
	c.RetryMin = cmp.Or(c.RetryMin, remote.ShortestRetry)
	c.RetryMax = cmp.Or(c.RetryMax, remote.LongestRetry)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// shared returns the settings that every driver has.
func (c *Config) shared() remote.Config {
	return remote.Config{Timeout: c.Timeout, Workers: c.Workers, Queue: c.Queue, RetryMin: c.RetryMin, RetryMax: c.RetryMax, Logger: c.Logger}
}

// oneServer reports whether the store is neither Sentinel nor a cluster.
func (c *Config) oneServer() bool { return c.MasterName == "" && !c.Cluster }

func (c *Config) ioTimeout() time.Duration   { return max(5*c.Timeout, minIO) }
func (c *Config) dialTimeout() time.Duration { return max(40*c.Timeout, minDial) }

// batchTimeout bounds one batch: dial, write, read, and the wait for a connection, which
// only the context bounds in go-redis.
func (c *Config) batchTimeout() time.Duration { return c.dialTimeout() + 2*c.ioTimeout() }

// options returns the client's options for a valid configuration: the profile that
// docs/redis.md explains.
func (c *Config) options() (*redis.UniversalOptions, error) {
	o := &redis.UniversalOptions{
		Addrs: c.Addrs, MasterName: c.MasterName, IsClusterMode: c.Cluster, DB: c.DB,
		Username: c.Username, Password: c.Password,
		SentinelUsername: c.SentinelUsername, SentinelPassword: c.SentinelPassword,

		Protocol:              2,
		DisableIdentity:       true,
		DialTimeout:           c.dialTimeout(),
		DialerRetries:         1,
		ReadTimeout:           c.ioTimeout(),
		WriteTimeout:          c.ioTimeout(),
		ContextTimeoutEnabled: false,         // an expired context would close the connection
		MaxRetries:            -1,            // a take is never sent twice
		MaxRedirects:          -1,            // nor by the cluster client, which would resend whole batches
		PoolSize:              c.Workers + 2, // one for scripts, one for checks
		MaxActiveConns:        c.Workers + 2,
		PoolTimeout:           c.Timeout,
		PipelinePoolSize:      -1,

		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if c.URL != "" {
		p, _ := parseURL(c.URL) // Validate has found no problem
		o.Addrs, o.TLSConfig, o.DB = []string{p.Addr}, p.TLSConfig, cmp.Or(p.DB, c.DB)
		o.Username, o.Password = cmp.Or(c.Username, p.Username), cmp.Or(c.Password, p.Password)
	}
	return o, c.applyTLS(o)
}

func (c *Config) applyTLS(o *redis.UniversalOptions) error {
	if o.TLSConfig == nil && c.usesTLS() {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if o.TLSConfig == nil {
		return nil
	}
	if c.ServerName != "" {
		o.TLSConfig.ServerName = c.ServerName
	}
	bad := &field.Report{Package: packageName}
	o.TLSConfig.RootCAs, o.TLSConfig.Certificates = c.certificates(bad, namedfile.ReadFile)
	return bad.Err()
}
