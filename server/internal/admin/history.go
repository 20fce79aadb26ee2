package admin

import (
	"net/http"
	"time"
)

// History is the document of /v1/history. Its names are part of the contract.
type History struct {
	Minutes []Minute `json:"minutes"` // of the last hour, oldest first; the last one is still running
}

// Minute is this node's decisions in a minute.
type Minute struct {
	From     time.Time    `json:"from"`
	Seconds  float64      `json:"seconds"`
	Admitted uint64       `json:"admitted"`
	Denied   uint64       `json:"denied"`
	Rules    []RuleMinute `json:"rules"` // those with decisions
}

// RuleMinute is a rule's decisions in a minute, by stage. In shadow mode it would have denied.
type RuleMinute struct {
	Rule     string            `json:"rule"`
	Mode     string            `json:"mode"`
	Admitted map[string]uint64 `json:"admitted"`
	Denied   map[string]uint64 `json:"denied"`
}

// history answers GET /v1/history.
func (f *Front) history(w http.ResponseWriter, _ *http.Request) { writeReply(w, f.History(), nil) }
