package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/fastlimit/fastlimit/server/internal/conn"
)

// cutGrace is how long connections get to end after they were cut.
const cutGrace = time.Second

// drainQuiet is how long a connection must have been idle for the drain to end
// it: a client that has just got an answer, or has just connected, is about to
// send.
const drainQuiet = 500 * time.Millisecond

// drain ends all connections without losing a request that has reached one: every
// answer is the connection's last, no connection ends while its client may be about
// to send, and idle ones are read once more before they end.
func (p *Parts) drain() error {
	p.Log.Info("draining", slog.Duration("delay", p.Delay), slog.Duration("timeout", p.Timeout))
	p.Conns.LastAnswers()
	time.Sleep(max(0, p.Delay-drainQuiet))
	p.Conns.DismissQuiet(false)
	noted := time.Now()
	time.Sleep(min(p.Delay, drainQuiet))

	end := time.Now().Add(p.Timeout)
	p.stopAccepting()
	for !p.Conns.EmptyWithin(min(time.Until(noted.Add(drainQuiet)), time.Until(end))) && time.Until(end) > 0 {
		p.Conns.DismissQuiet(false)
		noted = time.Now()
	}
	cut := 0
	if p.Conns.DismissQuiet(true) > 0 && !p.Conns.EmptyWithin(cutGrace) {
		cut = p.Conns.CloseAll()
		p.Conns.EmptyWithin(cutGrace)
	}
	if p.Admin != nil {
		p.shutdownAdmin()
	}
	if cut > 0 {
		return fmt.Errorf("fastlimit/server: %d connections were cut after a drain of %v: raise drain.timeout to give them more time", cut, p.Timeout)
	}
	p.Log.Info("drained")
	return nil
}

// stopAccepting closes the listeners once their queues are empty.
func (p *Parts) stopAccepting() {
	late := time.Now().Add(conn.SettleTime)
	for _, l := range p.Listeners {
		l.Settle()
	}
	for _, l := range p.Listeners {
		l.Close(late)
	}
}

func (p *Parts) shutdownAdmin() {
	ctx, cancel := context.WithTimeout(context.Background(), cutGrace)
	defer cancel()
	if err := p.Admin.Shutdown(ctx); err != nil && !errors.Is(err, http.ErrServerClosed) {
		_ = p.Admin.Close() // a profile in progress
	}
}
