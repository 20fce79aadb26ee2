package gossip

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/internal/safetext"
	"github.com/fastlimit/fastlimit/sync/delta"
	"golang.org/x/time/rate"
)

const (
	// logEvery is the interval in which each reason gets one line at most.
	logEvery = time.Minute
	// grace is for what happens whenever a node comes or goes: packets that
	// overtake the news of it.
	grace = 10 * time.Second

	// Lines about peers that come and go, and of memberlist.
	eventsPerSecond, eventsAtOnce = 1, 64
)

// passing are the reasons that are worth a line only after grace.
var passing = map[string]bool{
	delta.UnknownNode.String():      true,
	delta.StaleIncarnation.String(): true,
	reasonUDP:                       true, // packets get lost now and then
}

// journal counts what was dropped, and logs it once per reason and interval. Safe
// for concurrent use.
type journal struct {
	log *slog.Logger
	now func() time.Time

	mu      sync.Mutex // guards all below; never held across a line of the log
	counts  map[string]uint64
	entries map[string]*entry
	events  budget // of peers that come and go
	details budget // of memberlist
}

// budget bounds lines of the log that members can cause at will.
type budget struct {
	*rate.Limiter
	suppressed uint64 // lines since the last one that was logged
}

// take reports whether a line may be logged, and how many before it were not.
func (b *budget) take(now time.Time) (suppressed uint64, ok bool) {
	if !b.AllowN(now, 1) {
		b.suppressed++
		return 0, false
	}
	suppressed, b.suppressed = b.suppressed, 0
	return suppressed, true
}

// entry is what is known of a reason.
type entry struct {
	since      time.Time // it goes on, with pauses below grace
	last       time.Time // when it was noted
	logged     time.Time
	suppressed uint64 // since then
}

func newJournal(log *slog.Logger, now func() time.Time) *journal {
	return &journal{
		log: log, now: now, counts: map[string]uint64{}, entries: map[string]*entry{},
		events:  budget{Limiter: rate.NewLimiter(eventsPerSecond, eventsAtOnce)},
		details: budget{Limiter: rate.NewLimiter(eventsPerSecond, eventsAtOnce)},
	}
}

// Write implements io.Writer for the logger of memberlist, which writes a line at
// a time. All that is wrong is counted and logged where this package sees it, so
// its lines are details for debugging; nothing is read from their text.
func (j *journal) Write(b []byte) (int, error) {
	if j.log.Enabled(context.Background(), slog.LevelDebug) {
		j.logWithin(&j.details, slog.LevelDebug, "cluster: membership", slog.String("line", clip(strings.TrimSpace(string(b)))))
	}
	return len(b), nil
}

// reject counts and logs what was dropped.
func (j *journal) reject(reason string, attrs ...any) {
	j.mu.Lock()
	j.counts[reason]++
	j.mu.Unlock()
	j.warn(reason, attrs...)
}

// refuse is reject of what came from an address, which may be nil.
func (j *journal) refuse(reason string, from net.Addr) {
	if from == nil {
		j.reject(reason)
		return
	}
	j.reject(reason, slog.String("from", from.String()))
}

// event logs that a peer came or went.
func (j *journal) event(level slog.Level, text string, attrs ...slog.Attr) {
	j.logWithin(&j.events, level, text, attrs...)
}

// logWithin logs a line if the budget, one of j's, has one.
func (j *journal) logWithin(b *budget, level slog.Level, text string, attrs ...slog.Attr) {
	j.mu.Lock()
	suppressed, ok := b.take(j.now())
	j.mu.Unlock()
	if !ok {
		return
	}
	if suppressed > 0 {
		attrs = append(attrs, slog.Uint64("suppressed", suppressed))
	}
	j.log.LogAttrs(context.Background(), level, text, attrs...)
}

// warn logs a reason, if it is time.
func (j *journal) warn(reason string, attrs ...any) {
	suppressed, ok := j.due(reason)
	if !ok {
		return
	}
	text, known := advice[reason]
	if !known {
		text = "counts of a node were not merged"
	}
	all := append([]any{slog.String("reason", reason)}, attrs...)
	if suppressed > 0 {
		all = append(all, slog.Uint64("suppressed", suppressed))
	}
	j.log.Warn("cluster: "+text, all...)
}

// due reports whether the interval of a reason is over, and what it suppressed.
func (j *journal) due(reason string) (suppressed uint64, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.now()
	e := j.entries[reason]
	if e == nil {
		e = &entry{since: now}
		j.entries[reason] = e
	} else if now.Sub(e.last) > grace {
		e.since = now
	}
	e.last = now
	if !e.logged.IsZero() && now.Sub(e.logged) < logEvery || passing[reason] && now.Sub(e.since) < grace {
		e.suppressed++
		return 0, false
	}
	suppressed, e.logged, e.suppressed = e.suppressed, now, 0
	return suppressed, true
}

// totals are the counts of all reasons so far.
func (j *journal) totals() map[string]uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.counts)
}

// clip bounds what others can put into a line of the log. The handler escapes
// what does not print.
func clip(s string) string { return safetext.Clip(s, 200) }
