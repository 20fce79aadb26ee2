package conn

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/server/internal/logs"
)

// report logs about connections. One goroutine calls EndSecond.
type report struct {
	log          *slog.Logger
	acceptErrors logs.Budget
	proxy        logs.Budget

	crowded     bool          // has been logged
	lastCrowded time.Duration // when connections were last nearly full
}

// crowdQuiet is how long connections must not have been nearly full before it is logged again: a flood may
// fill them many times a second.
const crowdQuiet = time.Minute

// acceptFailed is called for a temporary error of accepting.
func (c *Conns) acceptFailed(err error) {
	c.acceptErrors.Add(1)
	if c.report.acceptErrors.Take() {
		c.report.log.Error("connections cannot be accepted: raise the limit of open files, or lower connections.max",
			slog.String("error", err.Error()))
	}
}

// AcceptErrors is how often accepting a connection failed, logged or not.
func (c *Conns) AcceptErrors() uint64 { return c.acceptErrors.Load() }

// EndSecond ends a second of the log. now must never fall.
func (c *Conns) EndSecond(now time.Duration) {
	logs.Suppressed(c.report.log, "accept errors not logged", c.report.acceptErrors.Refill(1, c.acceptErrors.Load()))
	logs.Suppressed(c.report.log, "refused PROXY headers not logged", c.report.proxy.Refill(1, c.refusedHeaders()))
	c.report.crowd(c.crowded.Load(), now, c)
}

// crowd logs when connections run short, and when they no longer do.
func (r *report) crowd(crowded bool, now time.Duration, c *Conns) {
	switch {
	case crowded && !r.crowded:
		r.crowded = true
		r.log.Warn("connections are nearly full: denied and idle ones are closed; raise connections.max, or lower connections.idle_timeout",
			slog.Int("open", c.Open()), slog.Int("max", c.Max()))
	case !crowded && r.crowded && now-r.lastCrowded >= crowdQuiet:
		r.crowded = false
		r.log.Info("connections are no longer nearly full", slog.Int("open", c.Open()))
	}
	if crowded {
		r.lastCrowded = now
	}
}

// Accepted returns how many connections were answered at the door, and how many others were admitted.
func (c *Conns) Accepted() (atDoor, kept uint64) { return c.atDoor.Load(), c.kept.Load() }

// Rejected returns how many connections were refused, by reason. Long heads and denials are not reasons for
// that.
func (c *Conns) Rejected() map[string]uint64 { return byReason(c.rejected[:reasonLarge]) }

// Dismissed is how many connections were ended early, by reason.
func (c *Conns) Dismissed() map[string]uint64 { return byReason(c.dismissed[:]) }

func byReason(counts []atomic.Uint64) map[string]uint64 { return byName(reasonNames[:], counts) }

// byName returns counters with their names, of which there may be more.
func byName(names []string, counts []atomic.Uint64) map[string]uint64 {
	all := make(map[string]uint64, len(counts))
	for i := range counts {
		all[names[i]] = counts[i].Load()
	}
	return all
}
