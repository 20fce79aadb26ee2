package replay

import (
	"context"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

// Config configures a replay. The zero value has no rules and is rejected.
type Config struct {
	// Limiter configures the rules, Policy everything else that decides; their
	// rules are in the same order. Required.
	Limiter fastlimit.Config
	Policy  policy.Settings

	ReadConfig
}

// secret is fixed, so that runs over the same log give equal reports. An attacker who
// knows it can at most craft a log with colliding digests, which slows a replay down.
var secret = [32]byte{'f', 'a', 's', 't', 'l', 'i', 'm', 'i', 't', ' ', 'r', 'e', 'p', 'l', 'a', 'y'}

// Run reads logs, plain or gzip, and judges them. It merges them by time, always reading the one that is
// furthest behind, so the logs may be one server's rotated files, in any order, or those of several servers.
// It fails if a log cannot be read to its end, if no line is one of an access log, if the rules are invalid,
// or with the error of ctx.
func Run(ctx context.Context, logs []Log, c Config) (*Report, error) {
	if c.Limiter.Secret == ([32]byte{}) {
		c.Limiter.Secret = secret
	}
	if err := c.Fields.Check(); err != nil {
		return nil, err
	}
	// A log is judged by this process alone in the log's own time: a shared store has neither that time nor
	// its state (TestRedisIsNotAsked).
	c.Limiter.Store, c.Limiter.Shared, c.Limiter.StoreTimeout, c.Limiter.Clock = nil, false, 0, new(fastlimit.ManualClock)
	lim, err := fastlimit.New(c.Limiter)
	if err != nil {
		return nil, err
	}
	engine, err := policy.New(lim, c.Policy)
	if err != nil {
		return nil, err
	}
	report := &Report{Clients: []Client{}}
	rules := c.Policy.Expanded().Rules
	j, err := newJudge(lim, c.Limiter.Clock, engine, rules, report)
	if err != nil {
		return nil, err
	}
	needs := neededBy(rules)
	j.rebuilt.fields.needs = needs
	p := newPlayer(ctx, &c.ReadConfig, engine, rules, needs, j.record)
	if err := p.play(logs); err != nil {
		return nil, err
	}
	report.take(&p.reading)
	j.finish()
	return report, nil
}
