package config

import (
	"time"

	"github.com/fastlimit/fastlimit"
)

// Store is what all shared stores have in common, whichever driver talks to them.
type Store struct {
	Name    string        // of its section in the file; metrics have it as a prefix
	Timeout time.Duration // longest time that a request waits for it
}

// Store returns the shared store that the file asks for. nil: each node has its own
// buckets. Whether there is one is decided here only, and which one is opened in
// cmd/fastlimit/store.go, so another driver is a case in each of the two.
func (c *Config) Store() *Store {
	if c.Redis != nil {
		return &Store{Name: "redis", Timeout: c.Redis.Timeout}
	}
	if c.Postgres != nil {
		return &Store{Name: "postgres", Timeout: c.Postgres.Timeout}
	}
	return nil
}

// checkStores has the packages of the stores check their settings.
func (d *decoder) checkStores() {
	if d.cfg.Redis != nil {
		d.report("Redis", d.cfg.Redis.Validate(d.machine.readFile))
	}
	if d.cfg.Postgres != nil {
		d.report("Postgres", d.cfg.Postgres.Validate())
	}
	if d.cfg.Redis != nil && d.cfg.Postgres != nil {
		d.fail(d.place("Postgres"), "redis is set too", "remove one of the two: nodes share one store")
	}
}

// storeWarnings are about settings that mean nothing, or much less, without a store.
func storeWarnings(c *Config, warn warnFunc) {
	if c.Store() != nil {
		return
	}
	for i := range c.Policy.Rules {
		if r := &c.Policy.Rules[i].Limit; r.OnFailure != fastlimit.FailLocal {
			warn("rule %s: on_failure: %v has no effect without redis or postgres", r.Name, r.OnFailure)
		}
	}
}
