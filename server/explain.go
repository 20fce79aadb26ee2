package server

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit/internal/explain"
)

// explainer answers /v1/explain by what is in force.
type explainer struct{ server *Server }

func (e explainer) node(trusted bool) *explain.Node {
	s := e.server
	set := s.decide.Snapshot().Settings()
	return &explain.Node{Engine: set.Engine, Limiter: set.Limiter, Values: trusted, Names: s.TalkerNames, Nodes: s.countedBy}
}

// Rule implements admin.Explainer, and so do the others.
func (e explainer) Rule(rule string, key []string, trusted bool) (any, error) {
	return e.node(trusted).Rule(rule, key, time.Now())
}

func (e explainer) Key(key []string, trusted bool) (any, error) {
	return e.node(trusted).Key(key, time.Now())
}

func (e explainer) Request(client netip.Addr, r *http.Request, trusted bool) (any, error) {
	return e.node(trusted).Request(client, r, time.Now())
}

func (e explainer) Reset(body []byte, by string) (any, error) {
	return e.node(true).Reset(body, by, e.server.config().Logger, time.Now())
}

// countedBy returns the nodes that count a client of a rule among their top talkers.
func (s *Server) countedBy(rule, key string) []string {
	ranking := s.ranking()
	if ranking == nil {
		return nil
	}
	set := s.decide.Snapshot().Settings()
	r, ok := set.Limiter.Rule(rule)
	for _, t := range ranking.Top(mostRanked) {
		if ok && t.Rule == rule && set.Engine.TalkerText(r, []byte(t.Name)).Text == key {
			return t.Nodes
		}
	}
	return nil
}
