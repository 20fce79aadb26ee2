package config

import (
	"fmt"
	"strings"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/field"
	"github.com/fastlimit/fastlimit/policy"
)

// check checks the settings against each other, and has each package check the
// Config that is meant for it. It runs even if some settings could not be read: what
// they fill is zero then, and [decoder.report] leaves out errors about failed fields.
func (d *decoder) check() {
	c := d.cfg
	c.headerGiven, c.unnamedGiven = d.places["Policy.ClientIPHeader"] != nil, d.places["Policy.OnUnnamed"] != nil
	c.waitGiven = d.places["Limits.Wait"] != nil
	if c.Redis != nil {
		d.report("Redis", c.Redis.Validate(d.machine.readFile))
	}
	if c.Postgres != nil {
		d.report("Postgres", c.Postgres.Validate())
	}
	if c.Redis != nil && c.Postgres != nil {
		d.fail(d.place("Postgres"), "redis is set too", "remove one of the two: nodes share one store")
	}
	if c.Cluster != nil {
		d.report("Cluster", c.Cluster.Validate())
	}
	_, err := policy.NewIdentity(c.Policy)
	d.report("Policy", err)
	d.checkAddresses()
	d.checkListeners()
	d.checkKernel()
	d.checkUpstream()
	d.checkAnswered()
	d.checkPrefixes() // before what depends on how many rules there are
	d.checkTalkers()  // before the rules: the plan has to fit the top talkers too
	d.translateLegacy()
	for i := range c.Policy.Rules {
		d.placeFractions(rulePath(i))
		d.report(rulePath(i), c.Policy.Rules[i].CheckCostFrom())
		d.report(rulePath(i), c.Policy.Rules[i].CheckRateFrom())
	}
	d.checkOverrides()
	d.checkRules()
	d.cfg.Policy = d.cfg.Policy.Expanded()
}

// rulePath is the path of a rule's Go field. It cannot be the name of a rule, which has
// no brackets; see checkRules.
func rulePath(i int) string { return fmt.Sprintf("Policy.Rules[%d]", i) }

// checkRules has package fastlimit plan all limits at once. It reports errors by
// the name of a rule, so a rule whose name is missing or taken gets its path for one.
func (d *decoder) checkRules() {
	lc := d.cfg.Limiter()
	if len(lc.Rules) > fastlimit.MaxRules { // as checkPrefixes has reported
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
	_, name, _ := cutLast(d.place(path).path)
	said := *e
	said.Fix = fmt.Sprintf("write rate: %s and burst: %d instead of %s", rate, d.cfg.Policy.Rules[i].Limit.Burst, name)
	return &said
}

// checkTalkers fills in the default of top_talkers for a node without cluster, and
// refuses the setting beside one: with two places to set it, one would be without effect.
func (d *decoder) checkTalkers() {
	n, alone := d.places["Limits.TopTalkers"], d.cfg.Cluster == nil
	switch {
	case n != nil && !alone:
		d.fail(n, "is for a node without cluster", "write it in cluster")
	case n == nil && alone:
		d.cfg.Limits.TopTalkers = defaultTalkers(d.cfg.Limits.Memory, len(d.cfg.Policy.Expanded().Rules))
	}
}

// checkRedis reports mistakes that only the file shows: the store cannot tell a
// setting that is written from its zero value. [redisstore.Config.Validate] reports
// all others.
func checkRedis(d *decoder, n *node) {
	at := func(field string) *node { return d.places[join(n.field, field)] }
	r := d.cfg.Redis
	if db := at("DB"); db != nil && !db.failed && at("Addrs") == nil {
		d.fail(db, "is for addresses", "write it into the URL: redis://host:6379/"+db.text)
	}
	off := at("TLS")
	if off == nil || off.failed || r.TLS {
		return
	}
	switch {
	case at("CAFile") != nil || at("CertFile") != nil:
		d.fail(off, "false beside ca_file or cert_file, which turn it on", "remove one of them")
	case strings.HasPrefix(r.URL, "rediss:"):
		d.fail(off, "false beside a URL of rediss://, which turns it on", "write redis://, or remove tls")
	}
}
