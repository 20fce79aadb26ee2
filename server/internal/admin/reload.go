package admin

import "net/http"

// reload answers POST /v1/reload, when the configuration holds, or with all that is wrong
// with it.
func (f *Front) reload(w http.ResponseWriter, r *http.Request) {
	if f.Reload == nil {
		problem(w, http.StatusNotFound, "This server has no configuration that it could read again.")
		return
	}
	writeReply(w, map[string]bool{"reloaded": true}, f.Reload(r.Context(), peer(r)))
}
