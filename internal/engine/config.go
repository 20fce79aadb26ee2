package engine

import (
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/clock"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// Config is what a limiter is made of. Package fastlimit documents the fields.
type Config struct {
	Rules        []limit.RuleConfig
	Memory       int64
	Reserved     int64
	Store        bucket.Store
	Shared       bool
	StoreTimeout time.Duration
	Clock        *ManualClock
	TopTalkers   int
	Nodes        int
	Wait         limit.WaitLimits
	OnBan        func(Ban)
	OnUnban      func(Ban)
	Secret       sketch.Secret
}

// Plan checks the configuration and divides its memory.
func (c *Config) Plan() (*limit.Plan, error) { return limit.NewPlan(c.limits()) }

// limits returns the settings that a plan depends on.
func (c *Config) limits() limit.Config {
	l := limit.Config{
		Rules: c.Rules, Memory: c.Memory, Reserved: c.Reserved, Shared: c.Shared || c.Store != nil, StoreTimeout: c.StoreTimeout,
		TopTalkers: c.TopTalkers, Nodes: c.Nodes, Wait: c.Wait,
	}
	if c.Store != nil {
		l.Runs = c.Store.Runs
	}
	return l
}

// stageCount is len(limit.Stages()).
const stageCount = limit.StageFallback + 1

// ManualClock is a clock that moves only when it is set. It is safe for concurrent use; the zero value reads
// 0.
type ManualClock struct{ clock clock.Clock }

// Set moves the clock to now. A time before the latest one is ignored.
func (c *ManualClock) Set(now time.Duration) { c.clock.Set(now) }

// Now returns the time that the clock was last set to.
func (c *ManualClock) Now() time.Duration { return c.clock.Latest() }

// SetStart sets the wall time at which the clock read 0.
func (c *ManualClock) SetStart(t time.Time) { c.clock.SetStart(t) }
