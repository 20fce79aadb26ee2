package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/fastlimit/fastlimit/server/internal/text"
)

// maxTop bounds a reply: about as many clients as a table tracks by default, and
// more than anybody reads.
const (
	defaultTop = 20
	maxTop     = 1000
)

// top answers GET /v1/top?n=20.
func (f *Front) top(w http.ResponseWriter, r *http.Request) {
	n := defaultTop
	if q := r.URL.Query(); q.Has("n") {
		v, err := strconv.Atoi(q.Get("n"))
		if err != nil || v < 1 || v > maxTop {
			problem(w, http.StatusBadRequest, fmt.Sprintf("n=%s: want a whole number from 1 to %d", text.Printable(q.Get("n")), maxTop))
			return
		}
		n = v
	}
	if f.Top == nil {
		problem(w, http.StatusNotFound, "No client is tracked: top_talkers is 0, or memory is too small for it; set it to 1024, or raise memory.")
		return
	}
	b, err := json.Marshal(struct {
		Clients any `json:"clients"`
	}{f.Top(n)})
	writeJSON(w, b, err)
}
