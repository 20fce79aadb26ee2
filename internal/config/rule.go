package config

import (
	"fmt"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/goccy/go-yaml/ast"
)

// What an ip key means without lengths: an IPv4 client is an address, an IPv6
// client the /64 that a subscriber is given at least.
const (
	defaultPrefix4 = 32
	defaultPrefix6 = 64
)

// rules reads all rules, broken ones included, so that they can be counted.
func (d *decoder) rules(n node) {
	seq, ok := n.ast.(*ast.SequenceNode)
	switch {
	case !ok && n.isNull(), ok && len(seq.Values) == 0:
		d.fail(n, "no rules: nothing would be limited", rulesExample)
		return
	case ok && len(seq.Values) > fastlimit.MaxRules:
		d.fail(n, fmt.Sprintf("%d rules", len(seq.Values)), fmt.Sprintf("want at most %d", fastlimit.MaxRules))
		return
	}
	lines := map[string]int{} // of the names
	for _, item := range d.items(n, "a list: "+rulesExample) {
		d.cfg.Policy.Rules = append(d.cfg.Policy.Rules, d.rule(item, lines))
	}
}

// ruleNodes are the settings of a rule that depend on each other.
type ruleNodes struct {
	name, key, rate, burst, cost, escalateAt, strict *node
}

func (d *decoder) rule(n node, lines map[string]int) policy.RuleSpec {
	var spec policy.RuleSpec
	var at ruleNodes
	set := func(to **node) func(node) { return func(v node) { *to = &v } }
	ok := d.mapping(n, "a rule such as {name: per-ip, key: ip, rate: 100/s}", []setting{
		{"name", set(&at.name)},
		{"key", set(&at.key)},
		{"match", func(v node) { spec.Match = d.match(v) }},
		{"rate", set(&at.rate)},
		{"burst", set(&at.burst)},
		{"cost", set(&at.cost)},
		{"mode", func(v node) {
			i, _ := d.choice(v, "enforce", "shadow")
			spec.Limit.Mode = [...]fastlimit.Mode{fastlimit.Enforce, fastlimit.Shadow}[i]
		}},
		{"escalate_at", set(&at.escalateAt)},
		{"strict", set(&at.strict)},
		{"on_failure", func(v node) {
			i, _ := d.choice(v, "local", "open", "closed")
			spec.Limit.OnFailure = [...]fastlimit.OnFailure{fastlimit.FailLocal, fastlimit.FailOpen, fastlimit.FailClosed}[i]
		}},
	})
	if !ok {
		return spec
	}
	if at.name == nil {
		d.missing(n, "name", "give the rule a name, for example name: per-ip")
	} else {
		spec.Limit.Name = d.ruleName(*at.name, lines)
	}
	d.ruleKey(at.key, &spec)
	if at.rate == nil {
		d.missing(n, "rate", "write for example rate: 100/s")
	}
	d.limit(&at, &spec.Limit)
	return spec
}

// ruleName checks a name, which becomes a metric label and a header value.
func (d *decoder) ruleName(n node, lines map[string]int) string {
	const want = "1 to 64 letters, digits, dots, dashes or underscores"
	name := d.word(n, "a name of "+want, nameRunes)
	if name == "" {
		return ""
	}
	if line, taken := lines[name]; taken {
		d.fail(n, quote(name)+fmt.Sprintf(" is the name of the rule on line %d", line), "choose another")
		return ""
	}
	lines[name] = n.line
	return name
}

// probe is a limit that is known to be good. Settings are added to it one at
// a time, so that an error is about the one that was added last.
var probe = fastlimit.RuleConfig{Name: probeName, Rate: fastlimit.Rate{N: 1, Per: time.Second}, Burst: 1}

const probeName = "probe"

// tryLimit checks a limit for where it is to be kept.
func (c *Config) tryLimit(r fastlimit.RuleConfig) error {
	_, err := fastlimit.NewPlan(fastlimit.Config{Rules: []fastlimit.RuleConfig{r}, Shared: c.Redis != nil, StoreTimeout: c.storeTimeout()})
	return err
}

// fastest admits every burst that any rate admits.
var fastest = fastlimit.Rate{N: 1, Per: time.Microsecond}

// limit reads the numbers of a rule. Where one is wrong or missing, the others
// are still held against each other.
func (d *decoder) limit(at *ruleNodes, to *fastlimit.RuleConfig) {
	c := probe
	c.Rate = fastest
	rated := at.rate != nil && d.rate(*at.rate, &c)
	if rated {
		to.Rate = c.Rate
	}
	sized := false
	switch {
	case at.burst != nil:
		sized = d.tryNumber(*at.burst, "200", &c, &c.Burst, true, "lower it")
		to.Burst = c.Burst
	case rated:
		c.Burst = 0 // the default, which depends on the rate
		err := d.cfg.tryLimit(c)
		if sized = err == nil; !sized {
			d.failWith(*at.rate, err, "lower it")
		}
	}
	if at.cost != nil {
		d.tryNumber(*at.cost, "1", &c, &c.Cost, sized, "lower it, or raise burst")
		to.Cost = c.Cost
	}
	d.escalation(at, to)
}

// rate leaves c as it is if the rate is no good.
func (d *decoder) rate(n node, c *fastlimit.RuleConfig) bool {
	s, ok := d.scalar(n, "a rate such as 100/s, 600/m, 5/h, 1/d or 300/15m")
	if !ok {
		return false
	}
	next := *c
	r, err := fastlimit.ParseRate(s.text)
	if err == nil {
		next.Rate = r
		err = d.cfg.tryLimit(next)
	}
	if err != nil {
		d.failWith(n, err, "write for example 100/s")
		return false
	}
	*c = next
	return true
}

// tryNumber reads a number into a field of c. Where the rest of c is good, so
// must the whole be.
func (d *decoder) tryNumber(n node, example string, c *fastlimit.RuleConfig, to *uint64, good bool, fix string) bool {
	v, ok := d.whole(n, example)
	if !ok {
		return false
	}
	*to = v
	if !good {
		return true
	}
	if err := d.cfg.tryLimit(*c); err != nil {
		d.failWith(n, err, fix)
		return false
	}
	return true
}

func (d *decoder) escalation(at *ruleNodes, to *fastlimit.RuleConfig) {
	if at.strict != nil {
		to.Strict, _ = d.boolean(*at.strict)
	}
	if at.escalateAt == nil {
		return
	}
	theta, ok := d.fraction(*at.escalateAt, "0.5")
	if !ok {
		return
	}
	c := probe
	c.EscalateAt = &theta
	if err := d.cfg.tryLimit(c); err != nil {
		d.failWith(*at.escalateAt, err, "want 0 to 1")
		return
	}
	if to.Strict {
		d.fail(*at.escalateAt, "has no meaning beside strict: true, which checks every request", "remove one of the two")
		return
	}
	to.EscalateAt = &theta
}
