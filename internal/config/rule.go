package config

import (
	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/field"
)

// rate is a number of units per period. Package fastlimit has the notation and says
// which rates it can keep exactly.
func rate() value {
	return valueOf("rate", patternSchema("^[0-9]+/[0-9]*[smhd]$"), func(d *decoder, n *node) (fastlimit.Rate, bool) {
		s, ok := d.scalar(n, "a rate such as 100/s, 600/m, 5/h, 1/d or 300/15m")
		if !ok {
			return fastlimit.Rate{}, false
		}
		r, err := fastlimit.ParseRate(s.text)
		return r, d.valid(n, err)
	})
}

// algorithms are in the order of package fastlimit, with underscores where its names
// have spaces.
var algorithms = []string{"leaky_bucket", "token_bucket", "fixed_window", "sliding_window", "sliding_log"}

// periods is what those algorithms admit that have no burst.
var periods = map[string]string{
	"fixed_window":   "which admits what rate says in each period",
	"sliding_window": "which admits what rate says in any period",
	"sliding_log":    "which admits what rate says in any period",
}

// checkRule reports settings of a rule that have no meaning beside another one.
func checkRule(d *decoder, n *node) {
	written := func(field string) *node { return d.written(n.field + ".Limit." + field) }
	escalateAt := written("EscalateAt")
	if escalateAt != nil && d.textOf(written("Strict")) == "true" {
		d.fail(escalateAt, "has no meaning beside strict: true, which checks every request", "remove one of the two")
	}
	algorithm := d.textOf(written("Algorithm"))
	if burst := written("Burst"); burst != nil && periods[algorithm] != "" {
		d.fail(burst, "has no meaning beside algorithm: "+algorithm+", "+periods[algorithm], "remove one of the two")
	}
	if wait := written("MaxWait"); wait != nil {
		d.checkMaxWait(wait, algorithm, d.textOf(written("Mode")))
	}
	if on := d.written(n.field + ".OnBadCost"); on != nil {
		switch {
		case d.places[n.field+".CostFrom"] == nil:
			d.fail(on, "has no meaning without cost_from, which names the header with the cost", "remove it, or add cost_from: {header: X-Cost}")
		case d.places[n.field+".CostFrom.ResponseHeader"] != nil:
			d.cfg.fileWarnings = append(d.cfg.fileWarnings, "rule "+d.textOf(written("Name"))+": on_bad_cost has no effect beside response_header: a request whose answer names a bad cost has been served, and costs what cost says; remove it")
		}
	}
	if denied := written("CountDenied"); d.textOf(denied) == "true" && (algorithm != "" || d.places[n.field+".Limit.Algorithm"] == nil) {
		d.checkCountDenied(denied, algorithm)
	}
}

// checkMaxWait reports a max_wait that makes nobody wait. Package fastlimit refuses it beside
// windows and logs, too, in words of its own.
func (d *decoder) checkMaxWait(at *node, algorithm, mode string) {
	switch {
	case periods[algorithm] != "":
		d.fail(at, "has no meaning beside algorithm: "+algorithm+": all who wait would come at once when it has room again", "remove it, or choose leaky_bucket")
	case mode == "shadow":
		d.fail(at, "has no effect beside mode: shadow, by which nobody is delayed", "remove it until the rule is enforced")
	}
}

// checkCountDenied reports a count_denied of true beside an algorithm that counts what it
// admits only. "" is the default, a bucket.
func (d *decoder) checkCountDenied(at *node, algorithm string) {
	const fix = "remove it, or choose fixed_window or sliding_window"
	switch {
	case algorithm == "fixed_window", algorithm == "sliding_window":
	case algorithm == "sliding_log":
		d.fail(at, "has no meaning beside algorithm: sliding_log, which keeps the times of what it admits", fix)
	default:
		d.fail(at, "has a meaning for windows only: a bucket does not count denied requests", fix)
	}
}

// written is where the file sets a field, nil if it does not or has a mistake there.
func (d *decoder) written(path string) *node {
	if at := d.places[path]; at != nil && !at.failed {
		return at
	}
	return nil
}

// textOf is what a scalar that was read says, variables expanded; "" of none.
func (d *decoder) textOf(n *node) string {
	if n == nil {
		return ""
	}
	text, _, _ := d.expand(n, n.text)
	return text
}

// valid reports the errors of a package at n, the value that it has checked, and
// whether there are none. It is for checks of one value, which know no field.
func (d *decoder) valid(n *node, err error) bool {
	for _, e := range field.All(err) {
		d.fail(n, e.Problem, e.Fix)
	}
	return err == nil
}
