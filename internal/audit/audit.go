// Package audit keeps the last changes that people or reloads made to a running node. A change is a log line
// that says who made it. The journal sits in front of the log's handler, so what is kept and what is logged
// cannot differ.
package audit

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// most is how many changes are kept, mostDetail how many bytes of each value.
const (
	most       = 1000
	mostDetail = 512
)

// Change is a change as operators see it. Its names are part of the contract.
type Change struct {
	Time    time.Time         `json:"time"`
	By      string            `json:"by"`   // an address, a user, or the cause of a reload
	What    string            `json:"what"` // as the log words it
	Details map[string]string `json:"details"`
}

// List is the document of GET /v1/changes.
type List struct {
	Changes []Change `json:"changes"` // the latest first
	Total   int      `json:"total"`   // since the process began; the last 1000 of them are kept
}

// Journal keeps changes. It is safe for concurrent use. The zero value is empty.
type Journal struct {
	mu    sync.Mutex
	last  []Change // a ring once it holds most; guarded by mu
	total int      // likewise
}

// Last returns up to n changes.
func (j *Journal) Last(n int) List {
	j.mu.Lock()
	defer j.mu.Unlock()
	l := List{Changes: []Change{}, Total: j.total}
	for i := range min(n, len(j.last)) {
		l.Changes = append(l.Changes, j.last[(j.total-1-i)%most])
	}
	return l
}

func (j *Journal) keep(c Change) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.last) < most {
		j.last = append(j.last, c)
	} else {
		j.last[j.total%most] = c
	}
	j.total++
}

// Handler returns a handler that logs to next and keeps the changes among what is logged, even at a level
// that next does not log.
func (j *Journal) Handler(next slog.Handler) slog.Handler { return handler{next, j} }

type handler struct {
	slog.Handler
	journal *Journal
}

// Enabled implements slog.Handler.
func (h handler) Enabled(ctx context.Context, l slog.Level) bool {
	return l == slog.LevelInfo || h.Handler.Enabled(ctx, l)
}

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if c, ok := changeOf(&r); ok {
		h.journal.keep(c)
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs and WithGroup keep the journal in front of the handler. A change's own line says everything about
// it.

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(all []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(all), h.journal}
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.Handler.WithGroup(name), h.journal}
}

// changeOf reads the change in a line, which names its author or cause. Warnings are about what was not
// changed, and outsiders could cause any number of them.
func changeOf(r *slog.Record) (Change, bool) {
	c := Change{Time: r.Time.UTC(), What: r.Message, Details: map[string]string{}}
	if r.Level == slog.LevelWarn {
		return c, false
	}
	r.Attrs(func(a slog.Attr) bool {
		value := a.Value.Resolve().String()
		value = value[:min(len(value), mostDetail)]
		if a.Key == "by" || a.Key == "cause" {
			c.By = value
		} else {
			c.Details[a.Key] = value
		}
		return true
	})
	return c, c.By != ""
}
