package gossip

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/sync/delta"
	"golang.org/x/time/rate"
)

const (
	// logEvery is the interval in which each reason gets one line at most.
	logEvery = time.Minute
	// grace is for what happens whenever a node comes or goes: packets that
	// overtake the news of it.
	grace = 10 * time.Second

	// Lines that tell of peers which come and go.
	eventsPerSecond, eventsAtOnce = 1, 64
)

// passing are the reasons that are worth a line only after grace.
var passing = map[string]bool{
	delta.UnknownNode.String():      true,
	delta.StaleIncarnation.String(): true,
}

// journal counts what was dropped, and logs it once per reason and interval. It
// is where memberlist logs, a line for each Write. Safe for concurrent use.
type journal struct {
	log *slog.Logger
	now func() time.Time

	mu      sync.Mutex // guards the maps; never held across a line of the log
	counts  map[string]uint64
	entries map[string]*entry
	budget  *rate.Limiter // of events
	unsaid  uint64        // events since the last that was logged
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
		budget: rate.NewLimiter(eventsPerSecond, eventsAtOnce),
	}
}

// Write implements io.Writer for the logger of memberlist. It keeps nothing of
// b.
func (j *journal) Write(b []byte) (int, error) {
	line := strings.TrimSpace(string(b))
	if reason := classify(line); reason != quiet {
		_, text, found := strings.Cut(line, "memberlist: ")
		if !found {
			text = line
		}
		j.count(reason)
		j.tell(reason, slog.String("detail", clip(text)))
	}
	return len(b), nil
}

// refuse notes what a stranger, or a node, sent; from may be nil.
func (j *journal) refuse(reason string, from net.Addr) {
	j.count(reason)
	if from == nil {
		j.tell(reason)
		return
	}
	j.tell(reason, slog.String("from", from.String()))
}

// event logs that a peer came or went, within a budget: members can make as
// many of them as they like.
func (j *journal) event(level slog.Level, text string, attrs ...slog.Attr) {
	j.mu.Lock()
	ok, unsaid := j.budget.AllowN(j.now(), 1), j.unsaid
	if ok {
		j.unsaid = 0
	} else {
		j.unsaid++
	}
	j.mu.Unlock()
	if !ok {
		return
	}
	if unsaid > 0 {
		attrs = append(attrs, slog.Uint64("suppressed", unsaid))
	}
	j.log.LogAttrs(context.Background(), level, text, attrs...)
}

func (j *journal) count(reason string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counts[reason]++
}

// tell logs a reason, if it is time.
func (j *journal) tell(reason string, attrs ...any) {
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

// due tells whether the interval of a reason is over, and what it suppressed.
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
func clip(s string) string {
	const most = 200
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
