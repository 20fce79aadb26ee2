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

// flagErrors are the mistakes on the command line; all are reported at once, as those
// of a file are. Flags have no setting row: they are read with the parsers of the file,
// but errors name the flag.
type flagErrors []error

func (es *flagErrors) add(flag, value, problem, fix string) {
	*es = append(*es, fmt.Errorf("--%s %s: %s; %s", flag, value, problem, fix))
}

// addFields adds what a package has found wrong with the fields that the flag sets.
func (es *flagErrors) addFields(flag, value string, err error) {
	for _, e := range field.All(err) {
		es.add(flag, value, e.Problem, e.Fix)
	}
}

// address returns the address that a flag holds; "" if the flag was not given.
func (es *flagErrors) address(flag, value string) string {
	if value == "" {
		return ""
	}
	addr, problem, fix := parseSocket(scalar{text: value})
	if problem != "" {
		es.add(flag, value, problem, fix)
	}
	return addr
}

// Override applies flags to a configuration. fromFile says that it was read from a
// file. The error joins all mistakes; c is then unchanged.
//
// The checks of addresses and limits that the file has passed are repeated, as a flag
// may contradict what the file sets.
func (c *Config) Override(f Flags, fromFile bool) error {
	next := *c
	var errs flagErrors
	if f.Upstream != "" {
		next.overrideUpstream(f, &errs)
	}
	if f.Redis != "" && c.Postgres != nil {
		errs = append(errs, errors.New("--redis: the file has postgres, and nodes share one store; remove one of the two"))
	} else if f.Redis != "" {
		next.overrideRedis(f.Redis)
		errs.addFields("redis", "URL", next.Redis.Validate(nil)) // without its value, which may hold a password
	}
	if addr := errs.address("listen", f.Listen); f.Listen != "" {
		next.Server.Listeners = []server.Listener{{Address: addr, DenyStatus: c.DenyStatus}}
	}
	if addr := errs.address("admin", f.Admin); f.Admin != "" {
		next.Server.Admin = addr
	}
	s := &next.Server
	if other := listenerAt(s.Listeners, s.Admin, systemResolver); other != "" {
		errs = append(errs, fmt.Errorf("admin %s is already used by the listener %s, and clients must never reach it; give it its own port with --admin", s.Admin, other))
	}
	if s.Upstream != nil && len(errs) == 0 {
		for i := range s.Upstream.URLs {
			if problem := ownAddress(s, i, systemResolver); problem != "" {
				errs = append(errs, fmt.Errorf("upstream %s %s; choose another with --upstream, --listen or --admin", s.Upstream.Addresses()[i], problem))
			}
		}
	}
	if c := next.Cluster; c != nil && c.takenBy(s, systemResolver) != "" {
		errs = append(errs, fmt.Errorf("cluster.bind %s: --listen or --admin has that port; choose another", c.Bind))
	}
	if limited := f.Rate != "" || f.Burst != ""; limited && fromFile {
		errs = append(errs, errors.New("--rate and --burst: the file has the rules; write them there"))
	} else if limited {
		next.overrideLimit(f, &errs)
	}
	if len(errs) == 0 {
		next.checkPlan(f, &errs)
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	*c = next
	return nil
}

// overrideLimit replaces the limit of the default rule, the only one without a file.
func (c *Config) overrideLimit(f Flags, errs *flagErrors) {
	c.Policy.Rules = slices.Clone(c.Policy.Rules) // the caller's stay as they are if there is an error
	limit := &c.Policy.Rules[0].Limit
	if f.Rate != "" {
		r, err := fastlimit.ParseRate(f.Rate)
		errs.addFields("rate", f.Rate, err)
		limit.Rate, limit.Burst = r, 0
	}
	if f.Burst != "" {
		n, err := strconv.ParseUint(f.Burst, 10, 64)
		if err != nil || n == 0 {
			errs.add("burst", f.Burst, "not a whole number above 0", "write for example 200")
		}
		limit.Burst = n
	}
}

// checkPlan checks that the limiter can enforce all rules with these flags: --redis
// may be added to a file with limits that Redis cannot store. Each error names the flag
// to change, which is the last that was put over a configuration that was valid.
func (c *Config) checkPlan(f Flags, errs *flagErrors) {
	_, err := fastlimit.NewPlan(c.Limiter())
	for _, e := range field.All(err) {
		switch {
		case e.Field == "Burst" && f.Burst != "":
			errs.addFields("burst", f.Burst, e)
		case f.Rate != "": // a burst that was not given derives from it
			errs.addFields("rate", f.Rate, e)
		default:
			*errs = append(*errs, fmt.Errorf("--redis: %w", e))
		}
	}
}
