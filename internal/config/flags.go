package config

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/fastlimit/fastlimit"
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
	for flag, value := range map[string]string{"upstream": f.Upstream, "redis": f.Redis} {
		if value != "" {
			fail(flag, value, "not supported by this version", "remove it")
		}
	}
	if f.Listen != "" {
		addr, problem := parseAddress(f.Listen)
		if problem != "" {
			fail("listen", f.Listen, problem, "want "+addressWant)
		}
		next.Listeners = []Listener{{Address: addr, DenyStatus: c.DenyStatus}}
	}
	if f.Admin != "" {
		addr, problem := parseAddress(f.Admin)
		if problem != "" {
			fail("admin", f.Admin, problem, "want "+addressWant)
		}
		next.Admin = addr
	}
	if other := taken(next.Listeners, next.Admin); other != "" {
		errs = append(errs, fmt.Errorf("admin %s is taken by the listener %s, and must never be exposed with traffic; give it a port of its own with --admin", next.Admin, other))
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

// overrideLimit replaces the limit of the only rule there is without a file.
func (c *Config) overrideLimit(f Flags) error {
	rules := append(c.Policy.Rules[:0:0], c.Policy.Rules...)
	limit := &rules[0].Limit
	if f.Rate != "" {
		r, err := fastlimit.ParseRate(f.Rate)
		if err != nil {
			return flagError("rate", f.Rate, err)
		}
		limit.Rate, limit.Burst = r, 0
	}
	check := probe
	check.Rate, check.Burst = limit.Rate, 1
	if err := tryLimit(check); err != nil {
		return flagError("rate", f.Rate, err)
	}
	if f.Burst != "" {
		n, err := strconv.ParseUint(f.Burst, 10, 64)
		if err != nil || n == 0 {
			return fmt.Errorf("--burst %s: not a whole number above 0; write for example 200", f.Burst)
		}
		limit.Burst = n
	}
	check.Burst = limit.Burst
	if err := tryLimit(check); err != nil {
		return flagError("burst", f.Burst, err)
	}
	c.Policy.Rules = rules
	return nil
}

func flagError(flag, value string, err error) error {
	problem, fix := splitError(err)
	if fix != "" {
		problem += "; " + fix
	}
	return fmt.Errorf("--%s %s: %s", flag, value, problem)
}
