package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket/redisstore"
	"github.com/fastlimit/fastlimit/internal/field"
	"github.com/fastlimit/fastlimit/server"
)

// Flags are the values of the command-line flags that override settings; "" where a
// flag was not given.
type Flags struct {
	Listen   string // replaces all listeners of the file
	Admin    string
	Upstream string
	Redis    string
	Rate     string // of the rule per-ip; only where there is no file
	Burst    string // likewise; without it a given rate is the burst too
}

// Override applies flags to a configuration. fromFile says that it was read from a
// file. The error joins all mistakes; c is then unchanged.
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
		next.overrideRedis(f.Redis)
		for _, e := range field.All(next.Redis.Validate(nil)) {
			fail("redis", "URL", e.Problem, e.Fix) // never shown: it may hold a password
		}
	}
	if f.Listen != "" {
		addr, problem := parseAddress(f.Listen)
		if problem != "" {
			fail("listen", f.Listen, problem, "want "+addressWant)
		}
		next.Server.Listeners = []server.Listener{{Address: addr, DenyStatus: c.DenyStatus}}
	}
	if f.Admin != "" {
		addr, problem := parseAddress(f.Admin)
		if problem != "" {
			fail("admin", f.Admin, problem, "want "+addressWant)
		}
		next.Server.Admin = addr
	}
	if other := taken(next.Server.Listeners, next.Server.Admin, systemResolver); other != "" {
		errs = append(errs, fmt.Errorf("admin %s is taken by the listener %s, and must never be exposed with traffic; give it a port of its own with --admin", next.Server.Admin, other))
	}
	if c := next.Cluster; c != nil && (taken(next.Server.Listeners, c.Bind, systemResolver) != "" || overlap(next.Server.Admin, c.Bind, systemResolver)) {
		errs = append(errs, fmt.Errorf("cluster.bind %s: --listen or --admin has that port; choose another", c.Bind))
	}
	if limited := f.Rate != "" || f.Burst != ""; limited && fromFile {
		errs = append(errs, errors.New("--rate and --burst: the file has the rules; write them there"))
	} else if limited {
		errs = append(errs, next.overrideLimit(f)...)
	}
	if len(errs) == 0 {
		errs = next.checkPlan(f)
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	*c = next
	return nil
}

// overrideRedis replaces the server, and keeps the other settings of redis.
func (c *Config) overrideRedis(url string) {
	r := redisstore.Config{}
	if c.Redis != nil {
		r = *c.Redis
	}
	r.URL, r.Addrs, r.MasterName, r.DB = url, nil, "", 0
	r.SentinelUsername, r.SentinelPassword = "", ""
	c.Redis = &r
}

// overrideLimit replaces the limit of the default rule, the only one without a file.
func (c *Config) overrideLimit(f Flags) (errs []error) {
	c.Policy.Rules = slices.Clone(c.Policy.Rules)
	limit := &c.Policy.Rules[0].Limit
	if f.Rate != "" {
		r, err := fastlimit.ParseRate(f.Rate)
		errs = append(errs, flagErrors("rate", f.Rate, err)...)
		limit.Rate, limit.Burst = r, 0
	}
	if f.Burst != "" {
		n, err := strconv.ParseUint(f.Burst, 10, 64)
		if err != nil || n == 0 {
			errs = append(errs, fmt.Errorf("--burst %s: not a whole number above 0; write for example 200", f.Burst))
		}
		limit.Burst = n
	}
	return errs
}

// checkPlan checks that the limiter can enforce all rules with these flags: --redis
// may be added to a file with limits that Redis cannot store.
func (c *Config) checkPlan(f Flags) (errs []error) {
	_, err := fastlimit.NewPlan(c.Limiter())
	for _, e := range field.All(err) {
		switch {
		case e.Field == "Burst" && f.Burst != "":
			errs = append(errs, flagErrors("burst", f.Burst, e)...)
		case f.Rate != "": // a burst that was not given derives from it
			errs = append(errs, flagErrors("rate", f.Rate, e)...)
		default:
			errs = append(errs, fmt.Errorf("--redis: %w", e))
		}
	}
	return errs
}

func flagErrors(flag, value string, err error) (errs []error) {
	for _, e := range field.All(err) {
		errs = append(errs, fmt.Errorf("--%s %s: %s; %s", flag, value, e.Problem, e.Fix))
	}
	return errs
}
