package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Talkers knows who asks most. Safe for concurrent use.
type Talkers interface {
	// Top returns up to n clients, the highest rate first.
	Top(n int) []Talker
}

// Talker is one of the clients that ask most.
type Talker struct {
	Rule string `json:"rule"`
	Key  string `json:"key"` // as text for people
	// Rate is what it asked for lately in units/s, what was denied included.
	// The truth is within Rate ± Error but once in a million times, and but
	// for what is on its way from other nodes.
	Rate  float64  `json:"rate"`
	Error float64  `json:"error"`
	Nodes []string `json:"nodes"` // that count it
}

// ClusterInfo is what /v1/info tells of the other nodes.
type ClusterInfo struct {
	Name     string
	Node     string // the name of this one
	Address  string // at which the others reach it
	MaxNodes int
	Interval time.Duration // between two exchanges of counts
	Peers    []string      // that are up
}

// Lag is the L that bounds are told for: a count waits for a tick, and is
// charged within the next.
func (c *ClusterInfo) Lag() time.Duration { return 2 * c.Interval }

const (
	defaultTop = 20
	maxTop     = 1000
)

// top answers GET /v1/top?n=20.
func (s *Server) top(w http.ResponseWriter, r *http.Request) {
	n := defaultTop
	if q := r.URL.Query(); q.Has("n") {
		v, err := strconv.Atoi(q.Get("n"))
		if err != nil || v < 1 || v > maxTop {
			problem(w, http.StatusBadRequest, fmt.Sprintf("n=%s: want a whole number from 1 to %d", printable(q.Get("n")), maxTop))
			return
		}
		n = v
	}
	if s.config.Talkers == nil {
		problem(w, http.StatusNotFound, "No client is tracked: top_talkers is 0, or memory is too small for it; set it to 1024, or raise memory.")
		return
	}
	reply := struct {
		Clients []Talker `json:"clients"`
	}{s.config.Talkers.Top(n)}
	if reply.Clients == nil {
		reply.Clients = []Talker{}
	}
	b, err := json.Marshal(reply)
	if err != nil {
		problem(w, http.StatusInternalServerError, err.Error())
		return
	}
	writeJSON(w, b)
}
