package admin

import (
	"net/http"

	"github.com/fastlimit/fastlimit/server/internal/text"
)

// listRules answers GET /v1/rules.
func (f *Front) listRules(w http.ResponseWriter, _ *http.Request) {
	if f.Rules == nil {
		noLiveRules(w)
		return
	}
	writeReply(w, f.Rules.List(), nil)
}

// changeRule answers PATCH /v1/rules/NAME.
func (f *Front) changeRule(w http.ResponseWriter, r *http.Request) {
	if f.Rules == nil {
		noLiveRules(w)
		return
	}
	body, ok := readBody(w, r, maxChangeBytes)
	if !ok {
		return
	}
	reply, err := f.Rules.Change(r.Context(), r.PathValue("name"), body, peer(r))
	writeReply(w, reply, err)
}

// undoRule answers DELETE /v1/rules/NAME[?all_nodes=true], which reverts the rule's changes.
func (f *Front) undoRule(w http.ResponseWriter, r *http.Request) {
	if f.Rules == nil {
		noLiveRules(w)
		return
	}
	all := r.URL.Query().Get("all_nodes")
	if all != "" && all != "true" && all != "false" {
		problem(w, http.StatusBadRequest, "all_nodes="+text.Printable(all)+": want true or false")
		return
	}
	reply, err := f.Rules.Undo(r.Context(), r.PathValue("name"), all == "true", peer(r))
	writeReply(w, reply, err)
}

func noLiveRules(w http.ResponseWriter) {
	problem(w, http.StatusNotFound, "This server changes no rules while it runs.")
}
