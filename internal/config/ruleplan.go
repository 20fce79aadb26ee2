package config

import (
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/field"
	"github.com/fastlimit/fastlimit/limit"
)

// checkRules has package fastlimit plan all limits at once. It reports errors by
// the name of a rule, so a rule whose name is missing or taken gets its path for one.
func (d *decoder) checkRules() {
	lc := d.cfg.Limiter()
	if len(lc.Rules) > limit.MaxRules { // as checkPrefixes has reported
		return
	}
	all := d.cfg.Policy.Expanded().Rules
	index := map[string]int{}
	for i := range lc.Rules {
		name := &lc.Rules[i].Name
		if i >= len(d.cfg.Policy.Rules) { // made by prefixes
			if _, taken := index[*name]; taken { // as that of its rule is
				*name = fmt.Sprintf("%s/%d", rulePath(i), i)
			}
			index[*name] = i
			continue
		}
		if first, taken := index[*name]; taken {
			d.fail(d.place(rulePath(i)+".Limit.Name"), fmt.Sprintf("%q is the name of the rule on line %d", *name, d.place(rulePath(first)+".Limit.Name").line), "choose another")
			*name = rulePath(i)
		} else if *name == "" {
			*name = rulePath(i)
		}
		index[*name] = i
	}
	_, err := fastlimit.NewPlan(lc)
	for _, e := range field.All(err) {
		e = inFile(e)
		switch i, ok := index[e.Rule]; {
		case ok && i >= len(d.cfg.Policy.Rules):
			d.reportMade(&all[i], e)
		case ok:
			if o, tier := ofTier(&d.cfg.Policy.Rules[i], e); tier {
				d.reportOverride(rulePath(i), &o)
				continue
			}
			if e.Field == "MaxRate" {
				said := *e
				said.Field = "RateFrom.Max"
				d.report(rulePath(i), &said)
				continue
			}
			d.report(rulePath(i)+".Limit", d.besideDefinition(i, e))
		case e.Field == "TopTalkers" && d.cfg.Cluster != nil: // see Config.Limiter
			d.report("Cluster", e)
		case e.Field == "Rules":
			d.report("Policy", e)
		default:
			d.report("Limits", e)
		}
	}
}

// fileNames are what the file calls things that errors of package fastlimit name.
var fileNames = strings.NewReplacer("MaxRate", "rate_from", "LeakyBucket", "leaky_bucket")

// inFile words an error of package fastlimit for somebody who writes a file.
func inFile(e *field.Error) *field.Error {
	said := *e
	said.Problem, said.Fix = fileNames.Replace(e.Problem), fileNames.Replace(e.Fix)
	return &said
}

// besideDefinition words what is wrong with the rate that a definition amounts to: a rate
// to write is no value of the definition, but takes its place.
func (d *decoder) besideDefinition(i int, e *field.Error) *field.Error {
	path := rulePath(i) + ".Limit.Rate"
	rate, ok := strings.CutPrefix(e.Fix, "write ")
	if d.definitions[path] == nil || e.Field != "Rate" || !ok {
		return e
	}
	if _, err := fastlimit.ParseRate(rate); err != nil { // advice in words
		return e
	}
	_, name := cutLast(d.place(path).path)
	said := *e
	said.Fix = fmt.Sprintf("write rate: %s and burst: %d instead of %s", rate, d.cfg.Policy.Rules[i].Limit.Burst, name)
	return &said
}

// lowRate is in requests per second. A rule whose memory carries less traffic is
// warned of, as any flood exceeds it.
const lowRate = 1000

// ruleWarnings are about what the memory of a rule is good for.
func ruleWarnings(rp *limit.RulePlan, nodes int, warn warnFunc) {
	trafficWarning(rp, warn)
	rc := &rp.Config
	if nodes > 1 && !rc.Strict && !rp.Filter && !rc.Algorithm.Periodic() && drain(rc) < time.Hour { // max_nodes alone has pushed it over the hour
		warn("each of %d nodes admits a client's first request unchecked, and with that a full bucket takes longer to drain than the hour for which clients are remembered: every client is counted from its first request, which takes more memory under a flood; set cluster.max_nodes to the number of nodes that you have",
			nodes)
	}
}

// trafficWarning is about memory that a usual flood exceeds.
func trafficWarning(rp *limit.RulePlan, warn warnFunc) {
	if rp.RequestsPerSecond >= lowRate {
		return
	}
	fix := "or the rate"
	switch {
	case rp.Logged():
		fix = "lower the number in rate, or choose a sliding window"
	case rp.Config.Algorithm.Periodic():
		fix = "or shorten the period"
	}
	warn("its memory is enough for %s from distinct clients; above twice that, buckets are evicted and clients can exceed %v: raise memory, %s",
		perSecond(rp.RequestsPerSecond), rp.Config.Rate, fix)
}

// ruleNotes are about what a rule costs. given is the rule as the file has it, rp as it was
// planned.
func ruleNotes(given *fastlimit.RuleConfig, rp *limit.RulePlan, nodes int, warn warnFunc) {
	rc := &rp.Config
	switch {
	case rc.Strict && rc.MaxRate != fastlimit.Rate{}:
		warn("with rate_from every request is checked exactly: every client takes a bucket, and a flood of one-shot sources fills the table")
	case rc.Strict:
		warn("strict checks every request: every client takes a bucket, and a flood of one-shot sources fills the table")
	case !rp.Filter && rc.Algorithm.Periodic():
		warn("a %s is longer than first-seen clients are remembered, %s: every client is counted from its first request, which takes more memory under a flood",
			period(rc), remembered[rc.Algorithm])
	case !rp.Filter && drain(rc) >= time.Hour:
		warn("a full bucket takes %s to drain, longer than the hour for which first-seen clients are remembered: every client is counted from its first request, which takes more memory under a flood",
			roughly(drain(rc)))
	case !rp.Filter && nodes <= 1: // with what P2 adds
		warn("the most that a client gets takes about an hour to drain, and first-seen clients are remembered no longer: every client is counted from its first request, which takes more memory under a flood")
	}
	if given.EscalateAt == nil && !rc.Strict && *rc.EscalateAt == 0 {
		what := "burst"
		if rc.Algorithm.Periodic() {
			what = "the limit of"
		}
		warn("escalate_at is 0, as %s %d is below 10: every request after a client's first is checked exactly", what, rc.Burst)
	}
}

// remembered is for how long a client is remembered from its first request on, by
// algorithm. Units of a sliding window count for two periods.
var remembered = map[fastlimit.Algorithm]string{
	fastlimit.FixedWindow:   "48 minutes at most",
	fastlimit.SlidingWindow: "for which a period may have 24 minutes at most",
	fastlimit.SlidingLog:    "less than an hour",
}

// period is the period of a rule that counts in periods, for people.
func period(rc *fastlimit.RuleConfig) string {
	name := "window"
	if rc.Algorithm != fastlimit.FixedWindow {
		name = rc.Algorithm.String()
	}
	return name + " of " + roughly(rc.Rate.Per)
}

// drain is the time in which a bucket drains that is as full as the sketch and the burst allow.
func drain(rc *fastlimit.RuleConfig) time.Duration {
	return time.Duration((1 + *rc.EscalateAt) * float64(rc.Burst) / rc.Rate.PerSecond() * float64(time.Second))
}

// describeTables explains the column of buckets that follows, with the worst chance of
// an overflow among the rules. Below 10^-30 the number would mean nothing.
func describeTables(b *strings.Builder, p *fastlimit.Plan) {
	overflow := 0.0
	for i := range p.Rules {
		overflow = max(overflow, p.Rules[i].Overflow)
	}
	fmt.Fprintf(b, "buckets: how many suspects can be limited at a time; at the traffic that a rule carries, half of them are in use,\n"+
		"and the chance that a suspect finds none free is below 1 in 10^%.0f\n", min(30, math.Floor(-math.Log10(overflow))))
}

// describeLogs says for each rule that keeps a log what it takes for each client, which is
// why there are so few buckets: all that its table takes, shared out among them.
func describeLogs(b *strings.Builder, p *fastlimit.Plan) {
	for i := range p.Rules {
		if rp := &p.Rules[i]; rp.Logged() {
			table := rp.Bytes - rp.BanBytes - 8*int64(rp.Cells) - talkerBytes(1, rp.TopTalkers)
			fmt.Fprintf(b, "log of rule %s: %s for each bucket, with the times of up to %d units\n", rp.Config.Name, size(table/int64(rp.Buckets)), rp.Config.Rate.N)
		}
	}
}

// describeRules is a table of all rules.
func describeRules(b *strings.Builder, p *fastlimit.Plan) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "rule\tlimit\tmode\tmemory\tsketch\tbuckets\tcarries\ta client gets at most")
	for i := range p.Rules {
		describeRule(w, &p.Rules[i])
	}
	w.Flush() // to a strings.Builder, which never fails
}

// describeRule is a row of the table. The rule is shown as planned, defaults filled in.
func describeRule(w *tabwriter.Writer, rp *limit.RulePlan) {
	rc := &rp.Config
	sketch := "none"
	if rp.Cells > 0 {
		sketch = fmt.Sprintf("%d cells", rp.Cells)
	}
	fmt.Fprintf(w, "%s\t%s\t%v\t%s\t%s\t%d\t%s\t%s\n",
		rc.Name, Limit(rc), rc.Mode, size(rp.Bytes), sketch, rp.Buckets,
		perSecond(rp.RequestsPerSecond), AtMost(rp))
}

// Limit is the limit of a rule, defaults filled in, as text.
func Limit(rc *fastlimit.RuleConfig) string {
	switch {
	case rc.Algorithm == fastlimit.LeakyBucket:
		return fmt.Sprintf("%v burst %d", rc.Rate, rc.Burst)
	case rc.Algorithm.Periodic():
		return fmt.Sprintf("%v, %v", rc.Rate, rc.Algorithm)
	}
	return fmt.Sprintf("%v burst %d, %v", rc.Rate, rc.Burst, rc.Algorithm)
}

// AtMost is the most that one node admits of a client, as text.
func AtMost(rp *limit.RulePlan) string {
	if rp.Config.Algorithm.Periodic() {
		return inPeriod(rp.MaxBurst(), &rp.Config)
	}
	return fmt.Sprintf("%d at once, then %v", rp.MaxBurst(), rp.Config.Rate)
}

// inPeriod is a bound on what a period holds, as text.
func inPeriod(most uint64, rc *fastlimit.RuleConfig) string {
	//exhaustive:enforce
	switch rc.Algorithm {
	case fastlimit.LeakyBucket, fastlimit.TokenBucket, fastlimit.FixedWindow: // below
	case fastlimit.SlidingWindow:
		return fmt.Sprintf("%d in a sliding window", most)
	case fastlimit.SlidingLog:
		return fmt.Sprintf("%d in any %s", most, shortTime(rc.Rate.Per))
	}
	return fmt.Sprintf("%d in a window", most)
}
