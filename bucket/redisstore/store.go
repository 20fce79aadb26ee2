package redisstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/fastlimit/fastlimit/bucket/step"
	"github.com/fastlimit/fastlimit/internal/namedfile"
	"github.com/redis/go-redis/v9"
)

// Store is a [bucket.Store] on Redis. It is safe for concurrent use. The zero
// value is not usable: call [Open].
type Store struct {
	*remote.Store // queue, workers and breaker, which call driver

	driver *driver
}

// Open connects and checks. If the configuration is wrong it returns no store; naming a
// replica as the only server is wrong, too. If Redis is merely unavailable it returns an
// error that matches [bucket.ErrAway] and also a store, whose breaker is open and which
// keeps trying: the caller decides whether to use it. Errors of Redis and of the connection
// are a [remote.Error].
func Open(ctx context.Context, c Config) (*Store, error) {
	d, err := newDriver(c, production)
	if err != nil {
		return nil, err
	}
	return open(ctx, d)
}

func open(ctx context.Context, d *driver) (*Store, error) {
	s, err := d.start(ctx, d, d.check(ctx))
	if s == nil {
		return nil, err
	}
	return &Store{s, d}, err
}

// start starts a store that does its work by as, whose check has returned err.
func (d *driver) start(ctx context.Context, as remote.Driver, err error) (*remote.Store, error) {
	// A lone replica may never be promoted, so waiting would not help.
	replica := classify(err) == classReadOnly && d.config.oneServer()
	if err != nil && (!errors.Is(err, bucket.ErrAway) || replica) {
		_ = d.Close()
		return nil, err
	}
	c := d.config.shared()
	c.Name, c.Target, c.Classes = "redis", d.client.target(), classes
	return remote.Start(ctx, as, c, err), err
}

// driver is the [remote.Driver] of Redis.
type driver struct {
	config Config // with defaults
	client *client
	login  atomic.Pointer[login]
	script *script
	clock  func() uint64 // nil except in tests: µs for a script that takes the time from us
	now    func() time.Time
	clocks remote.Clocks

	counts bool // see bind; set before it connects

	oneKeyEach atomic.Bool // a cluster behind one address: one key for each command
	batches    sync.Pool   // of *batch
	counters   counters
}

func newDriver(c Config, sc *script) (*driver, error) {
	if err := c.Validate(namedfile.ReadFile); err != nil {
		return nil, err
	}
	c = c.WithDefaults()
	o, err := c.options()
	if err != nil {
		return nil, err
	}
	d := &driver{config: c, script: sc, now: time.Now}
	d.batches.New = func() any { return newBatch() }
	d.uses(o)
	o.OnConnect = func(context.Context, *redis.Conn) error { d.clocks.Forget(); return nil }
	d.client = newClient(o, c.Logger)
	return d, nil
}

// Runs implements [remote.Driver]. The script repeats package step.
func (*driver) Runs(a bucket.Algorithm) bool { return step.Runs(a) }

// Classify implements [remote.Driver].
func (*driver) Classify(err error) *remote.Error { return asError(err) }

// Close implements [remote.Driver].
func (d *driver) Close() error { return d.client.close() }
