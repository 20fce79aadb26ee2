package admin

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/fastlimit/fastlimit/internal/denial"
)

// reload answers POST /v1/reload when the new configuration is in force, or with everything that is wrong
// with it, listed in errors.
func (f *Front) reload(w http.ResponseWriter, r *http.Request) {
	if f.Reload == nil {
		problem(w, http.StatusNotFound, "this server has no configuration file to read again")
		return
	}
	err := f.Reload(r.Context(), peer(r))
	if err == nil {
		writeJSON(w, []byte(`{"reloaded":true}`), nil)
		return
	}
	status := statusOf(err)
	b, _ := json.Marshal(struct { // of strings
		Type   string   `json:"type"`
		Title  string   `json:"title"`
		Status int      `json:"status"`
		Detail string   `json:"detail"`
		Errors []string `json:"errors"`
	}{"about:blank", http.StatusText(status), status, err.Error(), strings.Split(err.Error(), "\n")})
	w.Header().Set("Content-Type", denial.ProblemMediaType)
	w.Header().Set(denial.CacheControl, denial.NoStore)
	w.WriteHeader(status)
	w.Write(b)
}
