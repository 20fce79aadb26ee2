package admin

import "net/http"

// maxBans bounds a list of bans; its total includes the rest.
const (
	defaultBans = 1000
	maxBans     = 10_000
)

// listBans answers GET /v1/bans[?rule=R][&limit=N].
func (f *Front) listBans(w http.ResponseWriter, r *http.Request) {
	if f.Bans == nil {
		noBans(w)
		return
	}
	limit, ok := number(w, r, "limit", defaultBans, maxBans)
	if !ok {
		return
	}
	list, err := f.Bans.List(r.URL.Query().Get("rule"), limit)
	writeReply(w, list, err)
}

// ban answers POST /v1/bans.
func (f *Front) ban(w http.ResponseWriter, r *http.Request) {
	if f.Bans == nil {
		noBans(w)
		return
	}
	body, ok := readBody(w, r, maxChangeBytes)
	if !ok {
		return
	}
	reply, err := f.Bans.Ban(body, peer(r))
	writeReply(w, reply, err)
}

// unban answers DELETE /v1/bans?key=K[&key=K][&rule=R].
func (f *Front) unban(w http.ResponseWriter, r *http.Request) {
	if f.Bans == nil {
		noBans(w)
		return
	}
	q := r.URL.Query()
	if n := len(q["key"]); n == 0 || n > maxKeyParts {
		problem(w, http.StatusBadRequest, "name the client or prefix: DELETE /v1/bans?key=192.0.2.0/24, with a key for each part of a rule's")
		return
	}
	reply, err := f.Bans.Unban(q.Get("rule"), q["key"], peer(r))
	writeReply(w, reply, err)
}

func noBans(w http.ResponseWriter) {
	problem(w, http.StatusNotFound, "This server has no bans.")
}
