package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/toptalkers"
)

// TopTalkers lists the clients that send most. Safe for concurrent use.
type TopTalkers interface {
	// Top returns up to n clients, the highest rate first.
	Top(n int) []toptalkers.Talker
}

// localTalkers are the top talkers of this node alone.
type localTalkers struct {
	ranking *toptalkers.Ranking
	limiter *fastlimit.Limiter
}

// newLocalTalkers returns nil if the limiter tracks none. Rates count from here
// on.
func newLocalTalkers(lim *fastlimit.Limiter) *localTalkers {
	node, err := os.Hostname()
	if err != nil {
		node = "this"
	}
	t := &localTalkers{toptalkers.New(node, lim.Rules()), lim}
	if t.ranking.Rules() == 0 {
		return nil
	}
	t.tick()
	return t
}

// Top implements TopTalkers.
func (t *localTalkers) Top(n int) []toptalkers.Talker { return t.ranking.Top(n, t.limiter.Now()) }

// tick is called once a second.
func (t *localTalkers) tick() { t.ranking.Tick(t.limiter.Now()) }

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
	if s.config.TopTalkers == nil {
		problem(w, http.StatusNotFound, "No client is tracked: top_talkers is 0, or memory is too small for it; set it to 1024, or raise memory.")
		return
	}
	reply := struct {
		Clients []toptalkers.Talker `json:"clients"`
	}{s.config.TopTalkers.Top(n)}
	if reply.Clients == nil {
		reply.Clients = []toptalkers.Talker{}
	}
	b, err := json.Marshal(reply)
	if err != nil {
		problem(w, http.StatusInternalServerError, err.Error())
		return
	}
	writeJSON(w, b)
}
