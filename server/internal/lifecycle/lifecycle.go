// Package lifecycle runs a server from its first connection to the end of its
// drain: the goroutines of the listeners, one ticker, and the order in which
// everything stops. It decides nothing itself: what a tick and a drain do is in
// its [Parts].
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/server/internal/conn"
)

// Parts are what a server is made of.
type Parts struct {
	Log *slog.Logger

	Delay   time.Duration // between not being ready and the listeners closing
	Timeout time.Duration // for requests in flight

	Conns     *conn.Conns
	Listeners []*conn.Listener // bound

	Admin         *http.Server // nil: none
	AdminListener net.Listener

	// Tick is called once a second, then EndSecond, which is also called before
	// the first second and after the last: all by one goroutine at a time.
	Tick, EndSecond func()
}

// State says whether a server starts, serves or drains. The zero value is starting. Safe for
// concurrent use.
type State struct{ now atomic.Uint32 }

const (
	starting uint32 = iota
	serving
	draining
)

// Serving reports whether the server takes traffic and does not drain.
func (s *State) Serving() bool { return s.now.Load() == serving }

// Draining reports whether the server stops, or has stopped.
func (s *State) Draining() bool { return s.now.Load() == draining }

// Ready is nil while the server serves, else what it does instead.
func (s *State) Ready() error {
	switch s.now.Load() {
	case starting:
		return errors.New("starting")
	case draining:
		return errors.New("draining")
	}
	return nil
}

// Run serves until ctx ends or a listener breaks, then drains. It returns nil
// after a clean drain, else an error that tells how many connections were cut or
// which listener failed. It leaves no goroutine behind.
func (s *State) Run(ctx context.Context, p *Parts) error {
	// Listeners are bound, so requests from here on are at least queued, and served.
	s.now.Store(serving)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var all sync.WaitGroup
	failed := make(chan error, len(p.Listeners)+1)
	for _, l := range p.Listeners {
		all.Go(func() {
			if err := l.Accept(); err != nil {
				failed <- err
			}
		})
	}
	all.Go(func() { p.Conns.Watch(running) })
	if p.Admin != nil {
		all.Go(func() { failed <- p.Admin.Serve(p.AdminListener) })
	}
	p.EndSecond() // gives the budgets of the first second
	all.Go(func() { p.tick(running) })

	var broken error
	select {
	case <-ctx.Done():
	case err := <-failed:
		broken = fmt.Errorf("fastlimit/server: a listener stopped: %w", err)
	}
	s.now.Store(draining)
	err := p.drain()
	stop()
	all.Wait()
	p.EndSecond() // the last second of the log
	return errors.Join(broken, err)
}

func (p *Parts) tick(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			p.Tick()
			p.EndSecond()
		}
	}
}
