package server

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fastlimit/fastlimit/internal/certs"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/conn"
	"github.com/fastlimit/fastlimit/server/internal/decide"
)

// state is a server's configuration, with its open listeners. It is immutable.
type state struct {
	config Config
	places []place // every address that was ever listened on, so that requests on its old connections find their answers
	open   []int   // of places, in the order of config.Listeners
}

// place is an address and how it is, or was, listened on. Its index is the listener's index in snapshots, and
// stays: an address that comes back has the same one.
type place struct {
	Listener
	ln   *conn.Listener // nil: not made yet
	pair *certs.Store   // nil: no TLS
}

// place returns the places of a valid configuration with defaults. Those of now continue for the same
// addresses. It reads certificates, but makes no listeners.
func (now *state) place(c *Config) (places []place, open []int, err error) {
	places = append(places, now.places...)
	taken := make([]bool, len(places))
	var p problems
	for i := range c.Listeners {
		l := &c.Listeners[i]
		at := now.find(l.Address, taken)
		if at == len(places) {
			places, taken = append(places, place{}), append(taken, false)
		}
		taken[at] = true
		was := places[at].pair
		places[at].Listener, places[at].pair = *l, nil
		if l.TLS != nil {
			if places[at].pair, err = l.TLS.open(c.Logger); err != nil {
				p.of(fmt.Sprintf("Listeners[%d].TLS.", i), err)
				places[at].pair = was
			}
		}
		open = append(open, at)
	}
	return places, open, errors.Join(p...)
}

// find returns the first place of an address that is not taken. Open ones come first, as port 0 may be meant
// several times.
func (now *state) find(address string, taken []bool) int {
	for _, at := range now.open {
		if !taken[at] && now.places[at].Address == address {
			return at
		}
	}
	for at := range now.places {
		if !taken[at] && now.places[at].Address == address {
			return at
		}
	}
	return len(taken)
}

// listens reports whether a place is open.
func (now *state) listens(at int) bool { return slices.Contains(now.open, at) }

// snapshot renders the snapshot that decides requests.
func (now *state) snapshot() *decide.Snapshot {
	c := &now.config
	set := decide.Settings{Limiter: c.Limiter, Engine: c.Engine, Identity: c.Identity, Batches: c.DecideAPI, IgnoreBad: c.BadRequests == IgnoreBadRequests}
	if c.Upstream != nil { // the request that is decided on is the one that is passed on
		set.Identity = c.Identity.WithOriginal(policy.OriginalNone)
	}
	for i := range now.places {
		l := now.places[i].answers(c.Identity)
		if c.Upstream != nil {
			l.Identity = nil
		}
		set.Listeners = append(set.Listeners, l)
	}
	snap := decide.NewSnapshot(set)
	if len(c.Tiers) > 0 {
		snap = snap.WithEngine(c.Engine, c.Tiers)
	}
	return snap
}
