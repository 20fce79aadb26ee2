package remote

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// distanceWindow is how long a round trip counts, and once more as long.
	distanceWindow = 10 * time.Second
	// distanceSamples is how many round trips it takes to call a store far: a
	// machine that is busy answers late now and then.
	distanceSamples = 3
	// measureTimeout is how long a measurement may take.
	measureTimeout = 2 * time.Second
	// minTrips is how many round trips [Config.Timeout] is to be at least, and
	// advisedTrips how many are advised.
	minTrips, advisedTrips = 2, 5
)

// distance is how far away the store is: the shortest recent round trip. A store
// that is farther away than the timeout answers every operation, always too late.
// The nodes then decide without it, and no error shows that.
type distance struct {
	config *Config

	late      atomic.Uint64 // operations answered after the timeout
	measuring atomic.Bool

	mu       sync.Mutex    // guards all below
	since    time.Time     // when this window began
	shortest time.Duration // in this window; 0: none
	samples  int           // in this window; one without any does not end
	previous time.Duration // shortest in the window before
	warned   bool          // that it is too far, and it is still
}

// observe takes a round trip into account, and warns once when the store is too far.
func (d *distance) observe(took time.Duration, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rotateLocked(now)
	d.samples++
	if d.shortest == 0 || took < d.shortest {
		d.shortest = took
	}
	rtt := d.rttLocked()
	switch {
	case !d.warned && d.samples >= distanceSamples && minTrips*rtt > d.config.Timeout:
		d.warned = true
		d.warn(rtt)
	case minTrips*rtt <= d.config.Timeout:
		d.warned = false
	}
}

func (d *distance) rotateLocked(now time.Time) {
	if now.Sub(d.since) < distanceWindow || d.samples == 0 && !d.since.IsZero() {
		return
	}
	d.since, d.previous, d.shortest, d.samples = now, d.shortest, 0, 0
}

func (d *distance) rttLocked() time.Duration {
	if d.shortest == 0 || d.previous > 0 && d.previous < d.shortest {
		return d.previous
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
	if rtt >= d.config.Timeout {
		effect = "no answer comes in time: on_failure decides on every suspect, and local lets each node admit the rate"
	}
	fix := (advisedTrips*rtt + time.Millisecond - 1).Truncate(time.Millisecond)
	name := d.config.Name
	setting := name + ".timeout"
	d.config.Logger.Warn(name+" is too far away for "+setting, name, d.config.Target, "round_trip", rtt.Round(10*time.Microsecond), "timeout", d.config.Timeout,
		"effect", effect, "fix", "raise "+setting+" to "+fix.String()+", 5 round trips, or move it nearer")
}

// measure notes some round trips, with more patience than operations have.
func (s *Store) measure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	var trips [distanceSamples]time.Duration
	if err := s.driver.Measure(ctx, trips[:]); err != nil {
		return err
	}
	for _, took := range trips {
		s.distance.observe(took, time.Now())
	}
	return nil
}

// measureInBackground measures in the background, once at a time. ctx ends it.
func (s *Store) measureInBackground(ctx context.Context) {
	if s.distance.measuring.Swap(true) {
		return
	}
	s.prober.Go(func() {
		defer s.distance.measuring.Store(false)
		_ = s.measure(ctx) // it is away, and the breaker says so
	})
}
