package server

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/internal/explain"
)

// explainer answers /v1/explain by the configuration in force.
type explainer struct{ server *Server }

func (e explainer) node(trusted bool) *explain.Node {
	s := e.server
	set := s.decide.Snapshot().Settings()
	return &explain.Node{Engine: set.Engine, Limiter: set.Limiter, Values: trusted, Talkers: sync.OnceValue(s.topTalkers), LiveFor: s.liveFor}
}

// Rule implements admin.Explainer, as do the others.
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
