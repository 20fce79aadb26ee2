package admin

import (
	"net/http"
	"time"
)

// History is the document of /v1/history. Its names are part of the contract.
type History struct {
	Minutes []Minute `json:"minutes"` // of the last hour, the oldest first; the last one has not ended
}

// Minute is what was decided in a minute, on this node.
type Minute struct {
	From     time.Time    `json:"from"`
	Seconds  float64      `json:"seconds"`
	Admitted uint64       `json:"admitted"`
	Denied   uint64       `json:"denied"`
	Rules    []RuleMinute `json:"rules"` // that have decided anything
}

// RuleMinute is what a rule has decided in a minute, by stage. In shadow mode it would have denied.
type RuleMinute struct {
	Rule     string            `json:"rule"`
	Mode     string            `json:"mode"`
	Admitted map[string]uint64 `json:"admitted"`
	Denied   map[string]uint64 `json:"denied"`
}

// history answers GET /v1/history.
func (f *Front) history(w http.ResponseWriter, _ *http.Request) { writeReply(w, f.History(), nil) }
