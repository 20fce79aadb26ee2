package server

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/breakdown"
	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/internal/safetext"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/admin"
	"github.com/fastlimit/fastlimit/toptalkers"
)

// mostRanked is how many clients are considered for an order other than by rate, or for one rule.
const mostRanked = 1000

// top returns the document of /v1/top. Its error is for people: there is no such rule.
func (s *Server) top(q admin.TopQuery) (admin.Top, error) {
	ranking := s.ranking()
	if ranking == nil {
		return admin.Top{}, admin.ErrNotTracked
	}
	set := s.decide.Snapshot().Settings()
	if _, ok := set.Limiter.Rule(q.Rule); !ok && q.Rule != "" {
		return admin.Top{}, noRule(q.Rule, set.Limiter)
	}
	n := q.N
	if q.Rule != "" || q.Sort != admin.TopOrders[0] {
		n = mostRanked
	}
	all := admin.Top{Clients: []admin.TopClient{}, Totals: s.totals()}
	now := time.Now()
	for _, t := range ranking.Top(n) {
		if q.Rule == "" || q.Rule == t.Rule {
			all.Clients = append(all.Clients, describeTalker(&t, set.Limiter, set.Engine, now))
		}
	}
	slices.SortStableFunc(all.Clients, topOrder(q.Sort))
	all.Clients = all.Clients[:min(q.N, len(all.Clients))]
	return all, nil
}

// topBy returns the document of /v1/top?by=net.
func (s *Server) topBy(by breakdown.By, n int) admin.TopBy {
	all, groups := s.decide.Load().Top(by, n, time.Now())
	return admin.TopBy{By: by.String(), Requests: all, Groups: append([]breakdown.Share{}, groups...), Totals: s.totals()}
}

func noRule(name string, l *fastlimit.Limiter) error {
	var have []string
	for _, r := range l.Rules() {
		have = append(have, r.Name())
	}
	return fmt.Errorf("no rule %q; this node has %s", safetext.ASCII(name, 64), strings.Join(have[:min(20, len(have))], ", "))
}

// topOrder compares clients that are already sorted by rate.
func topOrder(by string) func(a, b admin.TopClient) int {
	switch by {
	case "denied":
		return func(a, b admin.TopClient) int { return cmp.Compare(b.Denied, a.Denied) }
	case "share":
		share := func(c *admin.TopClient) float64 {
			if c.Share == nil {
				return -1
			}
			return *c.Share
		}
		return func(a, b admin.TopClient) int { return cmp.Compare(share(&b), share(&a)) }
	case "key":
		return func(a, b admin.TopClient) int {
			return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Rule, b.Rule))
		}
	}
	return func(_, _ admin.TopClient) int { return 0 }
}

// nameOfNobody names a client of a rule that does not exist, so it is not known which parts may be read: an
// address, or a hash.
func nameOfNobody(e *policy.Engine, t *toptalkers.Talker) string {
	if t.Name == "" {
		return t.Key // a digest
	}
	return e.HideKey(nil, []string{t.Key})[0]
}

// describeTalker adds a client's current state. For a rule that a reload has removed there is none.
func describeTalker(t *toptalkers.Talker, l *fastlimit.Limiter, e *policy.Engine, now time.Time) admin.TopClient {
	c := admin.TopClient{Rule: t.Rule, Key: t.Key, Rate: t.Rate, Error: t.Error, Denied: t.Denied, Nodes: t.Nodes}
	rule, ok := l.Rule(t.Rule)
	if !ok {
		c.Key = nameOfNobody(e, t)
		return c
	}
	c.Mode = rule.Config().Mode.String()
	if t.Name != "" {
		text := e.TalkerText(rule, []byte(t.Name))
		c.Key, c.Parts = text.Text, text.Parts
	}
	limit := rule
	if own, key, unlimited, ok := e.TalkerLimit(rule, []byte(t.Name)); ok {
		limit, c.Override = own, unlimited || own != rule
		if left, banned := (*engine.Rule)(rule).Banned(engine.Key(key)); banned {
			c.Banned, c.BannedBy = left.Seconds(), "rule"
		}
	}
	if limit != nil {
		config := limit.Config()
		most := config.Rate.PerSecond()
		share := t.Rate / most
		c.Limit, c.Share = &most, &share
	}
	if p, _, ok := (*engine.Rule)(rule).ParseName([]byte(t.Name)); ok && p.IsValid() {
		if _, until, banned := e.Bans().Around(p, now); banned {
			c.Banned, c.BannedBy = max(c.Banned, until.Sub(now).Seconds()), "operator"
		}
	}
	return c
}
