package admin

import "net/http"

// maxChanges bounds a list of changes.
const (
	defaultChanges = 100
	maxChanges     = 1000
)

// changesMade answers GET /v1/changes[?limit=N].
func (f *Front) changesMade(w http.ResponseWriter, r *http.Request) {
	if f.Changes == nil {
		problem(w, http.StatusNotFound, "This server records no changes.")
		return
	}
	limit, ok := number(w, r, "limit", defaultChanges, maxChanges)
	if !ok {
		return
	}
	writeReply(w, f.Changes(limit), nil)
}
