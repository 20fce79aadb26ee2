package server

import (
	"os"

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

// newLocalTalkers returns nil if the limiter tracks none. Rates count from here on.
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

// follow returns the top talkers of a limiter's successor. t may be nil.
func (t *localTalkers) follow(lim *fastlimit.Limiter) *localTalkers {
	if t == nil {
		return newLocalTalkers(lim)
	}
	next := &localTalkers{toptalkers.Follow(t.ranking, lim.Rules()), lim}
	if next.ranking.Rules() == 0 {
		return nil
	}
	return next
}

// Top implements TopTalkers.
func (t *localTalkers) Top(n int) []toptalkers.Talker { return t.ranking.Top(n, t.limiter.Now()) }

// tick is called once a second.
func (t *localTalkers) tick() { t.ranking.Tick(t.limiter.Now()) }

// ranking returns the source of top talkers, or nil if no client is tracked.
func (s *Server) ranking() TopTalkers {
	if all := s.config().TopTalkers; all != nil {
		return all
	}
	if t := s.talkers.Load(); t != nil {
		return t
	}
	return nil
}

// TalkerNames returns the compact names of a rule's clients among the top talkers
// ([fastlimit.Rule.TopTalkers]), as far as they are known.
func (s *Server) TalkerNames(rule string) (names []string) {
	for _, t := range s.topTalkers() {
		if t.Rule == rule && t.Name != "" {
			names = append(names, t.Name)
		}
	}
	return names
}

// topTalkers returns as many top talkers as anybody looks through, or nil.
func (s *Server) topTalkers() []toptalkers.Talker {
	r := s.ranking()
	if r == nil {
		return nil
	}
	return r.Top(mostRanked)
}
