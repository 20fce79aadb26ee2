package redisstore

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// distanceWindow is how long a round trip counts, and once more as long.
	distanceWindow = 10 * time.Second
	// distanceSamples are too few to say that Redis is far: a machine that is
	// busy answers late now and then.
	distanceSamples = 3
	// farthest is the longest round trip that is measured.
	farthest = time.Second
	// tooShort is how many round trips [Config.Timeout] is to be at least, and
	// enough how many are advised.
	tooShort, enough = 2, 5
)

// distance is how far away Redis is: the shortest round trip of late. A Redis
// that is farther than the timeout answers every question, and always too late:
// the nodes decide without it, and nothing fails that would tell.
type distance struct {
	log     *slog.Logger
	target  string
	timeout time.Duration

	late      atomic.Uint64 // operations answered after the timeout
	measuring atomic.Bool

	mu       sync.Mutex    // guards all below
	since    time.Time     // when this window began
	shortest time.Duration // in this window; 0: none
	samples  int           // in this window; one without any does not end
	before   time.Duration // shortest in the window before
	warned   bool          // that it is too far, and it is still
}

// note takes a round trip into account, and warns once when Redis is too far.
func (d *distance) note(took time.Duration, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turnLocked(now)
	d.samples++
	if d.shortest == 0 || took < d.shortest {
		d.shortest = took
	}
	rtt := d.rttLocked()
	switch {
	case !d.warned && d.samples >= distanceSamples && tooShort*rtt > d.timeout:
		d.warned = true
		d.warn(rtt)
	case tooShort*rtt <= d.timeout:
		d.warned = false
	}
}

func (d *distance) turnLocked(now time.Time) {
	if now.Sub(d.since) < distanceWindow || d.samples == 0 && !d.since.IsZero() {
		return
	}
	d.since, d.before, d.shortest, d.samples = now, d.shortest, 0, 0
}

func (d *distance) rttLocked() time.Duration {
	if d.shortest == 0 || d.before > 0 && d.before < d.shortest {
		return d.before
	}
	return d.shortest
}

// rtt is the shortest round trip of the last two windows in which there was one,
// 0 if none is known.
func (d *distance) rtt() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rttLocked()
}

func (d *distance) warn(rtt time.Duration) {
	effect := "answers that are a little late are not waited for: on_failure decides"
	if rtt >= d.timeout {
		effect = "no answer comes in time: on_failure decides on every suspect, and local lets each node admit the rate"
	}
	fix := (enough*rtt + time.Millisecond - 1).Truncate(time.Millisecond)
	d.log.Warn("redis is too far away for redis.timeout", "redis", d.target, "round_trip", rtt.Round(10*time.Microsecond), "timeout", d.timeout,
		"effect", effect, "fix", "raise redis.timeout to "+fix.String()+", 5 round trips, or use a Redis that is nearer")
}

// answered notes how long a batch took of which so many operations failed.
func (s *Store) answered(took time.Duration, ops, failed int) {
	if took > s.config.Timeout {
		s.distance.late.Add(uint64(ops - failed))
	}
	if failed == 0 {
		s.distance.note(took, time.Now())
	}
}

// measure asks every primary for its distance, with more patience than operations
// have and so on a connection of its own, and notes the farthest.
func (s *Store) measure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*farthest)
	defer cancel()
	o := *s.client.options
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = farthest, farthest, farthest
	o.PoolSize, o.MaxActiveConns, o.PoolTimeout = 1, 1, farthest
	c := newClient(&o, s.config.Logger)
	hangUp := sync.OnceFunc(func() { _ = c.close() })
	defer hangUp()
	defer context.AfterFunc(ctx, hangUp)()
	var mu sync.Mutex // primaries are asked at the same time
	var trips [distanceSamples]time.Duration
	err := c.eachPrimary(ctx, func(ctx context.Context, c *redis.Client) error {
		if err := c.Ping(ctx).Err(); err != nil { // connects
			return err
		}
		for i := range trips {
			start := time.Now()
			if err := c.Ping(ctx).Err(); err != nil {
				return err
			}
			mu.Lock()
			trips[i] = max(trips[i], time.Since(start))
			mu.Unlock()
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, took := range trips {
		s.distance.note(took, time.Now())
	}
	return nil
}

// measureAside measures in the background, once at a time. ctx ends it.
func (s *Store) measureAside(ctx context.Context) {
	if s.distance.measuring.Swap(true) {
		return
	}
	s.prober.Go(func() {
		defer s.distance.measuring.Store(false)
		_ = s.measure(ctx) // it is away, and the breaker says so
	})
}
