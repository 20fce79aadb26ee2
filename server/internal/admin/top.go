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
	n, ok := number(w, r, "n", defaultTop, maxTop)
	if !ok {
		return
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

// number is a number of a query, from 1 to most, or answers that it is none.
func number(w http.ResponseWriter, r *http.Request, name string, absent, most int) (n int, ok bool) {
	q := r.URL.Query()
	if !q.Has(name) {
		return absent, true
	}
	n, err := strconv.Atoi(q.Get(name))
	if err != nil || n < 1 || n > most {
		problem(w, http.StatusBadRequest, fmt.Sprintf("%s=%s: want a whole number from 1 to %d", name, text.Printable(q.Get(name)), most))
		return 0, false
	}
	return n, true
}
