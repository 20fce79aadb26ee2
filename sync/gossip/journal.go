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
	// logEvery is the interval in which each reason is logged at most once.
	logEvery = time.Minute
	// grace is how long transient reasons go unlogged. They occur whenever a node
	// comes or goes, when packets overtake the membership's message about it.
	grace = 10 * time.Second

	// The budgets for lines about peers that come and go, and for memberlist's.
	eventsPerSecond, eventBurst = 1, 64
)

// transient are the reasons that are logged only if they persist beyond grace.
var transient = map[string]bool{
	delta.UnknownNode.String():      true,
	delta.StaleIncarnation.String(): true,
	reasonUDP:                       true, // packets get lost now and then
}

// journal counts what is dropped and logs each reason once per interval. Safe for
// concurrent use.
type journal struct {
	log *slog.Logger
	now func() time.Time

	mu      sync.Mutex // guards all below; not held while logging
	counts  map[string]uint64
	entries map[string]*entry
	events  budget // of peers that come and go
	details budget // of memberlist
}

// budget limits log lines that members can cause at will.
type budget struct {
	*rate.Limiter
	suppressed uint64 // lines since the last one that was logged
}

// take reports whether a line may be logged, and how many were suppressed before.
func (b *budget) take(now time.Time) (suppressed uint64, ok bool) {
	if !b.AllowN(now, 1) {
		b.suppressed++
		return 0, false
	}
	suppressed, b.suppressed = b.suppressed, 0
	return suppressed, true
}

// entry is the history of a reason.
type entry struct {
	since      time.Time // start of the current run of occurrences, without a pause above grace
	last       time.Time // latest occurrence
	logged     time.Time
	suppressed uint64 // occurrences since logged
}

func newJournal(log *slog.Logger, now func() time.Time) *journal {
	return &journal{
		log: log, now: now, counts: map[string]uint64{}, entries: map[string]*entry{},
		events:  budget{Limiter: rate.NewLimiter(eventsPerSecond, eventBurst)},
		details: budget{Limiter: rate.NewLimiter(eventsPerSecond, eventBurst)},
	}
}

// Write implements io.Writer for memberlist's logger, which writes one line at a
// time. Every problem is counted and logged where this package detects it, so these
// lines are for debugging only and their text is not parsed.
func (j *journal) Write(b []byte) (int, error) {
	if j.log.Enabled(context.Background(), slog.LevelDebug) {
		j.logWithin(&j.details, slog.LevelDebug, "cluster: membership", slog.String("line", clip(strings.TrimSpace(string(b)))))
	}
	return len(b), nil
}

// reject counts something that was dropped, and logs it when due.
func (j *journal) reject(reason string, attrs ...any) {
	j.mu.Lock()
	j.counts[reason]++
	j.mu.Unlock()
	j.warn(reason, attrs...)
}

// refuse is reject with the address it came from, which may be nil.
func (j *journal) refuse(reason string, from net.Addr) {
	if from == nil {
		j.reject(reason)
		return
	}
	j.reject(reason, slog.String("from", from.String()))
}

// event logs that a peer came or went, within the budget.
func (j *journal) event(level slog.Level, text string, attrs ...slog.Attr) {
	j.logWithin(&j.events, level, text, attrs...)
}

// logWithin logs a line if b, one of j's budgets, permits.
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

// warn logs a reason if it is due. It does not count it.
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

// due reports whether a reason may be logged now, and how many occurrences were
// suppressed since it last was.
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
	if !e.logged.IsZero() && now.Sub(e.logged) < logEvery || transient[reason] && now.Sub(e.since) < grace {
		e.suppressed++
		return 0, false
	}
	suppressed, e.logged, e.suppressed = e.suppressed, now, 0
	return suppressed, true
}

// totals returns the counts of all reasons so far.
func (j *journal) totals() map[string]uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.counts)
}

// clip limits the length of others' text in a log line. The handler escapes
// unprintable characters.
func clip(s string) string { return safetext.Clip(s, 200) }
