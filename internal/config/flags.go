package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/field"
	"github.com/fastlimit/fastlimit/server"
)

// Flags are the command-line flags that stand for settings, as they were
// given; "" where one was not.
type Flags struct {
	Listen   string // replaces all listeners of the file
	Admin    string
	Upstream string
	Redis    string
	Rate     string // of the rule per-ip; only where there is no file
	Burst    string // likewise; without it a given rate is the burst too
}

// Override puts flags over a configuration. fromFile tells that the
// configuration was read from a file. On error, which joins everything that is
// wrong, c is unchanged.
func (c *Config) Override(f Flags, fromFile bool) error {
	next := *c
	var errs []error
	fail := func(flag, value, problem, fix string) {
		errs = append(errs, fmt.Errorf("--%s %s: %s; %s", flag, value, problem, fix))
	}
	if f.Upstream != "" {
		fail("upstream", f.Upstream, "not supported by this version", "remove it")
	}
	if f.Redis != "" {
		if problem := checkRedisURL(f.Redis); problem != "" {
			// Never shown: it may hold a password.
			fail("redis", "URL", problem, redisURLFix)
		}
		next.overrideRedis(f.Redis)
		if err := next.tryRules(); err != nil {
			errs = append(errs, fmt.Errorf("--redis: %w", err))
		}
	}
	if f.Listen != "" {
		addr, problem := parseAddress(f.Listen)
		if problem != "" {
			fail("listen", f.Listen, problem, "want "+addressWant)
		}
		next.Listeners = []server.Listener{{Address: addr, DenyStatus: c.DenyStatus}}
	}
	if f.Admin != "" {
		addr, problem := parseAddress(f.Admin)
		if problem != "" {
			fail("admin", f.Admin, problem, "want "+addressWant)
		}
		next.Admin = addr
	}
	if other := taken(next.Listeners, next.Admin, systemResolver); other != "" {
		errs = append(errs, fmt.Errorf("admin %s is taken by the listener %s, and must never be exposed with traffic; give it a port of its own with --admin", next.Admin, other))
	}
	if c := next.Cluster; c != nil && (taken(next.Listeners, c.Bind, systemResolver) != "" || overlap(next.Admin, c.Bind, systemResolver)) {
		errs = append(errs, fmt.Errorf("cluster.bind %s: --listen or --admin has that port; choose another", c.Bind))
	}
	if f.Rate != "" || f.Burst != "" {
		if fromFile {
			errs = append(errs, errors.New("--rate and --burst: the file has the rules; write them there"))
		} else if err := next.overrideLimit(f); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	*c = next
	return nil
}

// overrideRedis replaces the server, and keeps what else the file says of it.
func (c *Config) overrideRedis(url string) {
	r := Redis{}
	if c.Redis != nil {
		r = *c.Redis
	}
	r.URL, r.Addresses, r.MasterName, r.Database = url, nil, "", 0
	r.SentinelUsername, r.SentinelPassword = "", ""
	c.Redis = &r
}

// tryRules checks that all rules can be kept in Redis too.
func (c *Config) tryRules() error {
	_, err := fastlimit.NewPlan(c.Limiter())
	return err
}

// overrideLimit replaces the limit of the only rule there is without a file.
func (c *Config) overrideLimit(f Flags) error {
	rules := slices.Clone(c.Policy.Rules)
	limit := &rules[0].Limit
	var errs []error
	if f.Rate != "" {
		r, err := fastlimit.ParseRate(f.Rate)
		check := probe
		check.Rate = r
		if err == nil {
			err = c.tryLimit(check)
		}
		if err != nil {
			errs = append(errs, flagError("rate", f.Rate, err))
		}
		limit.Rate, limit.Burst = r, 0
	}
	if f.Burst != "" {
		n, err := strconv.ParseUint(f.Burst, 10, 64)
		if err != nil || n == 0 {
			errs = append(errs, fmt.Errorf("--burst %s: not a whole number above 0; write for example 200", f.Burst))
		}
		limit.Burst = n
	}
	if len(errs) == 0 {
		check := *limit
		check.Name = probeName
		switch err := c.tryLimit(check); {
		case err != nil && f.Burst == "": // the default of the rate is too much
			errs = append(errs, flagError("rate", f.Rate, err))
		case err != nil:
			errs = append(errs, flagError("burst", f.Burst, err))
		}
	}
	c.Policy.Rules = rules
	return errors.Join(errs...)
}

func flagError(flag, value string, err error) error {
	var all []error
	for _, e := range field.All(err) {
		all = append(all, fmt.Errorf("--%s %s: %s; %s", flag, value, e.Problem, e.Fix))
	}
	return errors.Join(all...)
}
