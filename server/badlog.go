package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
)

// badLog has a line in each second in which requests were refused as bad: the
// first of them, and how many there were. Safe for concurrent use; the zero
// value is ready.
type badLog struct {
	taken atomic.Bool // first is there: a flood costs one load
	mu    sync.Mutex
	first *badLine // guarded by mu

	counted map[*fault]uint64 // of the ticker alone
}

type badLine struct {
	fault *fault
	peer  netip.Addr
	err   string
}

// note keeps what is logged of a bad request, if it is among the first of its
// second.
func (b *badLog) note(f *fault, peer netip.Addr, err error) {
	if b.taken.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.first != nil {
		return // somebody was faster
	}
	b.first = &badLine{fault: f, peer: peer}
	if err != nil {
		b.first.err = printable(err.Error())
	}
	b.taken.Store(true)
}

// next begins a second, and logs the last one. The peer is the sender, a proxy
// maybe: who the client of a bad request is, nobody knows.
func (b *badLog) next(all []*fault, to *slog.Logger) {
	b.mu.Lock()
	first := b.first
	b.first = nil
	b.taken.Store(false)
	b.mu.Unlock()

	if b.counted == nil {
		b.counted = make(map[*fault]uint64, len(all))
	}
	total := uint64(0)
	var reasons []any
	for _, f := range all {
		n := f.count.Load()
		if since := n - b.counted[f]; since > 0 {
			total += since
			reasons = append(reasons, slog.Uint64(f.reason, since))
		}
		b.counted[f] = n
	}
	if first == nil {
		return
	}
	peer := ""
	if first.peer.IsValid() {
		peer = first.peer.String()
	}
	attrs := []any{
		slog.String("peer", peer),
		slog.String("reason", first.fault.reason),
		slog.Int("status", first.fault.status),
		slog.Uint64("count", max(total, 1)), // it may have been noted before it was counted
	}
	if len(reasons) > 1 {
		attrs = append(attrs, slog.Group("reasons", reasons...))
	}
	if first.err != "" {
		attrs = append(attrs, slog.String("error", first.err))
	}
	to.Warn("bad request", attrs...)
}

// parserLogger takes what fasthttp logs by itself, which is a line for every
// connection that ends in an error. Bad requests have been counted and noted by
// then; the rest is of use to developers. It implements fasthttp.Logger.
type parserLogger struct{ *Server }

// Printf implements fasthttp.Logger.
func (l parserLogger) Printf(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("connection", slog.String("error", printable(fmt.Sprintf(format, args...))))
	}
}
