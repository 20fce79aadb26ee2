package remote

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// distanceWindow is the length of a window. A round trip counts in its own window and
	// in the next one, so for 10 to 20 s.
	distanceWindow = 10 * time.Second
	// distanceSamples is how many round trips it takes to call a store far, as a
	// busy machine answers late now and then.
	distanceSamples = 3
	// measureTimeout is how long a measurement may take.
	measureTimeout = 2 * time.Second
	// minTrips is the least [Config.Timeout] in round trips that causes no
	// warning, advisedTrips what the warning advises.
	minTrips, advisedTrips = 2, 5
)

// distance is how far away the store is: the shortest recent round trip. A store
// farther away than the timeout answers every operation too late. Nodes then
// decide without it, and no error shows that.
type distance struct {
	config *Config

	late      atomic.Uint64 // operations answered after the timeout
	measuring atomic.Bool

	mu       sync.Mutex    // guards all below
	since    time.Time     // when this window began
	shortest time.Duration // in this window; 0: none
	samples  int           // in this window; a window without any does not end
	previous time.Duration // shortest in the window before
	warned   bool          // it was too far at the last warning and still is
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

// rtt returns the shortest round trip of the last two windows that had one, or 0 if none is
// known.
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

// measure observes some round trips. It waits longer for them than operations do.
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

// measureInBackground starts a measurement unless one is running. ctx ends it.
func (s *Store) measureInBackground(ctx context.Context) {
	if s.distance.measuring.Swap(true) {
		return
	}
	s.prober.Go(func() {
		defer s.distance.measuring.Store(false)
		_ = s.measure(ctx) // the breaker has logged that the store is away
	})
}
