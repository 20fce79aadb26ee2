package logs

import (
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/fastlimit/fastlimit/server/internal/text"
)

// Reason is a kind of bad request. Its name is a label value.
type Reason struct {
	Name   string
	Status int           // HTTP status of the answer
	Count  atomic.Uint64 // requests, logged or not
}

// Bad logs one line for each second with bad requests: the first of them, and how many there were. Safe for
// concurrent use; the zero value is ready.
type Bad struct {
	taken atomic.Bool // first is set; in a flood a request costs only this load
	mu    sync.Mutex
	first *badLine // guarded by mu

	counted map[*Reason]uint64 // only the ticker uses it
}

type badLine struct {
	reason *Reason
	peer   netip.Addr
	err    string
}

// Note keeps what is logged of a bad request, if it is the first of its second. err may be nil. The peer is
// the sender, possibly a proxy: the client of a bad request is unknown.
func (b *Bad) Note(r *Reason, peer netip.Addr, err error) {
	if b.taken.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.first != nil {
		return // another request was faster
	}
	b.first = &badLine{reason: r, peer: peer}
	if err != nil {
		b.first.err = text.Printable(err.Error())
	}
	b.taken.Store(true)
}

// EndSecond begins a second, and logs the last one. all are the reasons to count.
func (b *Bad) EndSecond(all []*Reason, to *slog.Logger) {
	b.mu.Lock()
	first := b.first
	b.first = nil
	b.taken.Store(false)
	b.mu.Unlock()

	if b.counted == nil {
		b.counted = make(map[*Reason]uint64, len(all))
	}
	total := uint64(0)
	var reasons []any
	for _, r := range all {
		n := r.Count.Load()
		if since := n - b.counted[r]; since > 0 {
			total += since
			reasons = append(reasons, slog.Uint64(r.Name, since))
		}
		b.counted[r] = n
	}
	if first == nil {
		return
	}
	attrs := []any{
		slog.Any("peer", first.peer), // left out if unknown
		slog.String("reason", first.reason.Name),
		slog.Int("status", first.reason.Status),
		slog.Uint64("count", max(total, 1)), // first may have been recorded before it was counted
	}
	if len(reasons) > 1 {
		attrs = append(attrs, slog.Group("reasons", reasons...))
	}
	if first.err != "" {
		attrs = append(attrs, slog.String("error", first.err))
	}
	to.Warn("bad request", attrs...)
}

// Suppressed logs how many lines of a kind were left out, if any.
func Suppressed(to *slog.Logger, what string, n uint64) {
	if n > 0 {
		to.Info(what, slog.Uint64("suppressed", n))
	}
}
