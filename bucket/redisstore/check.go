package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/redis/go-redis/v9"
)

// Open connects and checks. On a wrong configuration, which the one address of
// a replica is too, it returns no store. If
// Redis is merely away it returns both a store, whose breaker is open and which
// tries again by itself, and an error that matches [bucket.ErrAway]: the caller decides.
func Open(ctx context.Context, c Config) (*Store, error) {
	return open(ctx, c, production, nil, time.Now)
}

// open opens a store with a script that may take the time from clock. now is
// this machine's.
func open(ctx context.Context, c Config, sc *script, clock func() uint64, now func() time.Time) (*Store, error) {
	s, err := newStore(c, sc)
	if err != nil {
		return nil, err
	}
	s.clock, s.now = clock, now
	s.start()
	err = s.Check(ctx)
	var e *Error
	if errors.As(err, &e) {
		e = s.diagnose(ctx, e)
		err = e
	}
	switch {
	case err == nil:
		_ = s.measure(ctx) // an error will be the operations' too
		return s, nil
	case !errors.Is(err, bucket.ErrAway), e.Class == ReadOnly && s.config.single():
		// A replica that nobody promotes stays one.
		_ = s.Close(ctx)
		return nil, err
	}
	s.breaker.open(e)
	return s, err
}

// Check reports whether every primary can do the work: it answers, is Redis
// 6.2 or later or Valkey, may be written, and runs the scripts. The error
// names the fix; it matches [bucket.ErrAway] if waiting may help.
func (s *Store) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 4*s.config.batchTimeout())
	defer cancel()
	err := s.client.eachPrimary(ctx, s.checkServer)
	if err == nil {
		err = s.probe(ctx, checkKeys)
	}
	var e *Error
	if err != nil && !errors.As(err, &e) {
		err = &Error{Class: Classify(err), Err: err}
	}
	return err
}

func (s *Store) checkServer(ctx context.Context, c *redis.Client) error {
	step := func(what string, err error) error {
		if err == nil {
			return nil
		}
		return &Error{Class: Classify(err), Err: fmt.Errorf("%s: %w", what, err)}
	}
	if err := step("PING", c.Ping(ctx).Err()); err != nil {
		return err
	}
	if err := step("TIME", c.Time(ctx).Err()); err != nil {
		return err
	}
	info, err := c.Info(ctx).Result() // sections cannot be combined before 7.0
	if err != nil && Classify(err) != NoPerm {
		return step("INFO", err)
	}
	if err := checkInfo(info); err != nil {
		return err
	}
	return step("SCRIPT LOAD", s.loadInto(ctx, c))
}

// checkInfo reads INFO; without the right to it, the scripts still tell.
func checkInfo(info string) error {
	if info == "" {
		return nil
	}
	field := func(name string) string {
		_, v, _ := strings.Cut("\n"+info, "\n"+name+":")
		v, _, _ = strings.Cut(v, "\n")
		return strings.TrimSpace(v)
	}
	if v := field("redis_version"); !atLeast(v, 6, 2) {
		return &Error{Class: Other, Err: fmt.Errorf("redis_version %q: want 6.2 or later, or Valkey", v)}
	}
	if field("role") == "slave" {
		return &Error{Class: ReadOnly, Err: fmt.Errorf("this is a replica of %s:%s", field("master_host"), field("master_port"))}
	}
	return nil
}

func atLeast(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, err1 := strconv.Atoi(parts[0])
	b, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (a > major || a == major && b >= minor)
}

// probeKey looks like no rule and client.
const probeKey = "!probe"

// checkKeys is how many buckets a check takes from: so many that one node of a
// cluster that is taken for all of it would own all only once in 2^16 times.
const checkKeys = 16

// probeShape leaks in a millisecond, so a probe leaves nothing behind and
// always has something to write.
var probeShape, _ = bucket.NewShape(1000, time.Second, 1<<20)

// probe takes from n buckets of its own, which needs everything that takes
// need: reading, writing, the script, an answer in time.
func (s *Store) probe(ctx context.Context, n int) error {
	b := newBatch()
	var err error
	for i := range n {
		b.ops = append(b.ops, &bucket.Op{
			Kind: bucket.Take, Key: probeKey + strconv.Itoa(i), Shape: probeShape, Cost: probeShape.Unit(), Count: 1,
			Done: func(_ *bucket.Op, _ bucket.Reply, e error) {
				if err == nil {
					err = e
				}
			},
		})
	}
	if s.client.cluster != nil {
		ping := func(ctx context.Context, c *redis.Client) error { return c.Ping(ctx).Err() }
		if err := s.client.eachPrimary(ctx, ping); err != nil {
			s.client.reload(ctx)
			return &Error{Class: Classify(err), Err: err}
		}
	}
	s.exec(ctx, b)
	return err
}

// probeFast is the probe of the breaker: the answer must come in time as well.
// The first may have had to connect, so there is a second try.
func (s *Store) probeFast(ctx context.Context) error {
	for range 2 {
		start := time.Now()
		if err := s.probe(ctx, 1); err != nil {
			if Classify(err) == Timeout {
				s.measureAside(ctx) // it may answer later than anybody waits
			}
			return err
		}
		took := time.Since(start)
		s.distance.note(took, time.Now())
		if took <= s.config.Timeout {
			return nil
		}
	}
	return errSlow
}
