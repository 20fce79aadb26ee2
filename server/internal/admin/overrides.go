package admin

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/server/internal/text"
)

// maxChangeBytes bounds the body of a change: a key of 1 KiB, escaped, and the rest.
const maxChangeBytes = 16 << 10

// maxKeyParts bounds the parts read from a query: no key has more.
const maxKeyParts = 64

// listOverrides answers GET /v1/overrides[?rule=R].
func (f *Front) listOverrides(w http.ResponseWriter, r *http.Request) {
	if f.Overrides == nil {
		noOverrides(w)
		return
	}
	list, err := f.Overrides.List(r.URL.Query().Get("rule"))
	writeReply(w, list, err)
}

// putOverride answers PUT /v1/overrides.
func (f *Front) putOverride(w http.ResponseWriter, r *http.Request) {
	if f.Overrides == nil {
		noOverrides(w)
		return
	}
	body, ok := readBody(w, r, maxChangeBytes)
	if !ok {
		return
	}
	reply, err := f.Overrides.Put(r.Context(), body, peer(r))
	writeReply(w, reply, err)
}

// deleteOverride answers DELETE /v1/overrides?rule=R&key=K[&key=K].
func (f *Front) deleteOverride(w http.ResponseWriter, r *http.Request) {
	if f.Overrides == nil {
		noOverrides(w)
		return
	}
	q := r.URL.Query()
	if q.Get("rule") == "" || len(q["key"]) == 0 || len(q["key"]) > maxKeyParts {
		problem(w, http.StatusBadRequest, "name the override: DELETE /v1/overrides?rule=per-ip&key=192.0.2.7, with a key for each part of the rule's")
		return
	}
	if err := f.Overrides.Delete(r.Context(), q.Get("rule"), q["key"], peer(r)); err != nil {
		problemOf(w, err)
		return
	}
	writeJSON(w, []byte(`{"deleted":true}`), nil)
}

func noOverrides(w http.ResponseWriter) {
	problem(w, http.StatusNotFound, "This server has no live overrides.")
}

// writeReply answers with a reply, or its error.
func writeReply(w http.ResponseWriter, reply any, err error) {
	if err != nil {
		problemOf(w, err)
		return
	}
	b, err := json.Marshal(reply)
	writeJSON(w, b, err)
}

// problemOf answers with an error.
func problemOf(w http.ResponseWriter, err error) { problem(w, statusOf(err), err.Error()) }

func statusOf(err error) int {
	if s, ok := err.(interface{ HTTPStatus() int }); ok {
		return s.HTTPStatus()
	}
	return http.StatusInternalServerError
}

// refusals logs refused changes, at most a line a second, with the number not logged.
type refusals struct {
	mu      sync.Mutex
	last    time.Time
	skipped int
}

func (l *refusals) note(log *slog.Logger, r *http.Request, status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.last) < time.Second {
		l.skipped++
		return
	}
	l.last = now
	log.Warn("a change was refused", slog.String("by", peer(r)), slog.String("call", r.Method+" "+text.Printable(r.URL.Path)),
		slog.Int("status", status), slog.Int("not_logged", l.skipped))
	l.skipped = 0
}
