package gossip

import (
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/sync/delta"
	"github.com/fastlimit/fastlimit/toptalkers"
)

// counts is a delta.State on its limiter's clock, which the limiters that take over from
// that one share. Safe for concurrent use.
type counts struct {
	state *delta.State
	now   func() time.Duration
	ended func(fastlimit.Ban) // Config.BanEnded
}

var _ Exchange = (*counts)(nil)

func newCounts(c *Config, incarnation uint64, lim *fastlimit.Limiter) (*counts, error) {
	dc := delta.Config{
		Cluster: c.Name, Node: c.Node, Incarnation: incarnation,
		MaxBytes: c.MaxBytes, PacketSize: c.payload(), MaxNodes: c.MaxNodes, Ignore: c.Ignore, AcceptBans: c.AcceptBans,
	}
	dc.Rules, dc.Banners = exchanged(lim, c.BanEnded)
	s, err := delta.New(dc)
	if err != nil {
		return nil, err
	}
	s.Recall(lim.Now())
	return &counts{s, lim.Now, c.BanEnded}, nil
}

// exchanged returns the rules whose counts, and those whose bans, are exchanged.
func exchanged(lim *fastlimit.Limiter, ended func(fastlimit.Ban)) (rules []delta.Rule, banners []delta.Banner) {
	for _, r := range lim.Rules() {
		rules = append(rules, (*engine.Rule)(r))
		if rc := r.Config(); rc.Ban.Enabled() {
			banners = append(banners, banner{r, ended})
		}
	}
	return rules, banners
}

func (c *counts) follow(lim *fastlimit.Limiter) {
	c.state.Follow(exchanged(lim, c.ended))
	c.state.Recall(c.now())
}

func (c *counts) Tick() (counts, bans [][]byte) {
	now := c.now()
	bans = c.state.TellBans(now)
	return c.state.Tick(now), bans
}

func (c *counts) Receive(packet []byte) *delta.Rejected { return c.state.Receive(packet, c.now()) }
func (c *counts) Join(node string, incarnation uint64)  { c.state.Join(node, incarnation, c.now()) }
func (c *counts) Leave(node string)                     { c.state.Leave(node, c.now()) }
func (c *counts) top(n int) []toptalkers.Talker         { return c.state.Top(n, c.now()) }
