package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/policy"
)

const rulesExample = `write for example rules: [{name: per-ip, key: ip, rate: 100/s, burst: 200}]`

// ruleSettings fills policy.RuleSpec, whose Limit is the fastlimit.RuleConfig. Fields
// without def stay zero where the file is silent, and package fastlimit fills them in.
var ruleSettings = section{
	name: "rule", want: "a rule such as {name: per-ip, key: ip, rate: 100/s}", where: "in a rule, indented like its name",
	check: checkRule,
	settings: []setting{
		{
			name: "name", field: "Limit.Name", value: nameOf(nameWant, nameRunes),
			required: "give the rule a name, for example name: per-ip", doc: "name of the rule in metrics and headers",
		},
		{name: "key", field: "Key", value: ruleKey(), def: "ip", doc: "what requests are counted by"},
		{name: "match", field: "Match", value: mapping(&matchSettings), shown: "every request", doc: "which requests the rule applies to"},
		{name: "rate", field: "Limit.Rate", value: rate(), required: "write for example rate: 100/s", doc: "how much a client may send over time"},
		{name: "algorithm", field: "Limit.Algorithm", value: choice(algorithms...), def: "leaky_bucket", doc: "how the rule counts"},
		{name: "legacy", field: "Limit.Rate", value: legacyLimit(), shown: "none", doc: "instead of `rate` and `burst`: a limit of requests per time, as Sharkey defines it"},
		{name: "bucket", field: "Limit.Rate", value: legacyBucket(), shown: "none", doc: "the same, as a bucket that loses drips"},
		{name: "factor", field: "Factor", value: factor(), shown: "`1`", doc: "divides the size of `legacy` or `bucket` and multiplies the time between its drips: below 1 relaxes the limit"},
		{name: "burst", field: "Limit.Burst", value: whole(number{least: 1, most: math.MaxUint64, example: "200"}), shown: "the number in `rate`", doc: "how much a client may send at once; not with a window or a log"},
		{name: "count_denied", field: "Limit.CountDenied", value: boolean(), def: "false", doc: "windows only: denied requests count too"},
		{name: "cost", field: "Limit.Cost", value: ruleCost(), shown: "`1`", doc: "units that a request takes, at most `burst`; with up to three decimals in a bucket"},
		{name: "max_wait", field: "Limit.MaxWait", value: duration(time.Millisecond, limit.MaxMaxWait, "2s", ""), shown: "none", doc: "how long a request may wait in the queue instead of being denied; buckets only"},
		{name: "mode", field: "Limit.Mode", value: choice("enforce", "shadow"), def: "enforce", doc: "whether the rule denies or only counts"},
		{name: "escalate_at", field: "Limit.EscalateAt", value: fraction("0.5"), shown: "`0.5`, or `0` if `burst` < 10", doc: "fraction of `burst` at which exact checks begin"},
		{name: "strict", field: "Limit.Strict", value: boolean(), def: "false", doc: "check every request exactly"},
		{name: "on_failure", field: "Limit.OnFailure", value: choice("local", "open", "closed"), def: "local", doc: "what decides if the store does not answer"},
		{name: "overrides", field: "Overrides", value: overrideList(), shown: "none", doc: "different limits, or none, for some clients"},
		{name: "overrides_file", field: "Overrides", value: overridesFile(), doc: "a file with overrides, one on each line, for long lists"},
		{name: "cost_from", field: "CostFrom", value: mapping(&costFromSettings), shown: "none", doc: "where the cost of a request comes from, if not from `cost`"},
		{name: "on_bad_cost", field: "OnBadCost", value: choice("reject", "deny", "charge"), def: "reject", doc: "what to do with a request whose cost is not valid"},
		{name: "rate_from", field: "RateFrom", value: mapping(&rateFromSettings), shown: "none", doc: "where the rate of a client comes from, if not from `rate`"},
		{name: "ban", field: "Limit.Ban", value: ruleBan(), shown: "none", doc: "refuse clients that are denied too often, for a while"},
	},
}

// ruleList is the list of rules, which must not be empty: a limiter without rules is a
// mistake that would show only when it is needed.
func ruleList() value {
	v := listOf("list of rules", "a list: "+rulesExample, mapping(&ruleSettings))
	list := v.read
	v.schema["minItems"], v.schema["maxItems"] = 1, limit.MaxRules
	v.read = func(d *decoder, n *node, to reflect.Value) bool {
		switch {
		case n.kind == isNull, n.kind == isList && len(n.items) == 0:
			d.fail(n, "no rules: nothing would be limited", rulesExample)
			return false
		case len(n.items) > limit.MaxRules:
			d.fail(n, fmt.Sprintf("%d rules", len(n.items)), "want at most 256")
			return false
		}
		return list(d, n, to)
	}
	return v
}

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

// algorithms are the names of package bucket, with underscores in place of spaces.
var algorithms = func() (names []string) {
	for a := range bucket.NumAlgorithms {
		names = append(names, strings.ReplaceAll(a.String(), " ", "_"))
	}
	return names
}()

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
		d.fail(escalateAt, "has no meaning with strict: true, which checks every request", "remove one of the two")
	}
	algorithm := d.textOf(written("Algorithm"))
	if burst := written("Burst"); burst != nil && periods[algorithm] != "" {
		d.fail(burst, "has no meaning with algorithm: "+algorithm+", "+periods[algorithm], "remove one of the two")
	}
	if wait := written("MaxWait"); wait != nil {
		d.checkMaxWait(wait, algorithm, d.textOf(written("Mode")))
	}
	d.checkOnBadCost(n)
	if denied := written("CountDenied"); d.textOf(denied) == "true" && (algorithm != "" || d.places[n.field+".Limit.Algorithm"] == nil) {
		d.checkCountDenied(denied, algorithm)
	}
}

// checkCountDenied reports a count_denied of true beside an algorithm that counts what it
// admits only. "" is the default, a bucket.
func (d *decoder) checkCountDenied(at *node, algorithm string) {
	const fix = "remove it, or choose fixed_window or sliding_window"
	switch {
	case algorithm == "fixed_window", algorithm == "sliding_window":
	case algorithm == "sliding_log":
		d.fail(at, "has no meaning with algorithm: sliding_log, which keeps only the times of admitted requests", fix)
	default:
		d.fail(at, "has a meaning for windows only: a bucket does not count denied requests", fix)
	}
}

// rulePath is the path of a rule's Go field. It cannot be the name of a rule, which has
// no brackets; see checkRules.
func rulePath(i int) string { return fmt.Sprintf("Policy.Rules[%d]", i) }

// anyRule reports whether a rule is so.
func (c *Config) anyRule(is func(*policy.RuleSpec) bool) bool {
	return slices.ContainsFunc(c.Policy.Rules, func(spec policy.RuleSpec) bool { return is(&spec) })
}
