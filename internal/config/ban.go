package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/ban"
	"github.com/fastlimit/fastlimit/internal/field"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/policy"
)

const banExample = "ban: {after: 200, within: 10s, for: 30s, max: 1h}"

// banned is what the settings in ban fill: fields of a rule's limit and of its spec.
type banned struct {
	ban.Policy

	Prefixes *policy.Prefixes
}

// banSettings fills banned.
var banSettings = section{
	name: "ban", want: "settings, such as " + banExample[len("ban: "):], where: "in ban, indented more than ban",
	settings: []setting{
		{
			name: "after", field: "After", value: whole(number{least: 1, most: ban.MaxAfter, example: "200"}), required: "write for example " + banExample,
			doc: "denials that begin a ban, including the last of them; an eighth of that for a client that is remembered for an earlier ban",
		},
		{name: "within", field: "Within", value: duration(ban.MinWithin, ban.MaxWithin, "10s", ""), def: "10s", doc: "the time in which these denials must happen"},
		{name: "for", field: "For", value: duration(ban.MinFor, ban.MaxFor, "30s", ""), required: "write for example for: 30s", doc: "how long the first ban lasts; each further one lasts twice as long"},
		{name: "max", field: "Max", value: duration(ban.MinFor, ban.MaxFor, "1h", ""), shown: "that of `for`", doc: "the longest that a ban lasts"},
		{name: "prefixes", field: "Prefixes", value: mapping(&prefixSettings), shown: "none", doc: "networks that are limited and banned as clients too; only with `key: ip`"},
	},
}

// prefixSettings fills policy.Prefixes.
var prefixSettings = section{
	name: "prefixes", want: "settings, such as {v4: [24], v6: [56, 48], members: 16}", where: "in prefixes, indented more than prefixes",
	settings: []setting{
		{name: "v4", field: "V4", value: prefixLengths(31, "24"), shown: "none", doc: "prefix lengths of IPv4, shorter than the rule's own grouping"},
		{name: "v6", field: "V6", value: prefixLengths(127, "48"), shown: "none", doc: "the same for IPv6"},
		{
			name: "members", field: "Members", value: whole(number{least: policy.MinMembers, most: policy.MaxMembers, example: "16"}), def: strconv.Itoa(policy.DefaultMembers),
			doc: "how many times the rule's rate and burst such a network has",
		},
	},
}

// prefixLengths is a list of lengths, each shorter than that of an address.
func prefixLengths(most uint64, example string) value {
	return listOf("list of 1 to "+strconv.FormatUint(most, 10), "a list of lengths such as ["+example+"]", whole(number{least: 1, most: most, example: example}))
}

// ruleBan is the ban of a rule. Its settings fill two fields of the rule, which is why it
// reads into the whole struct; and nothing is filled in where there is none.
func ruleBan() value {
	v := mapping(&banSettings)
	v.section, v.toStruct = nil, true
	v.read = func(d *decoder, n *node, to reflect.Value) bool {
		var b banned
		ok := banSettings.read(d, n, reflect.ValueOf(&b).Elem())
		// Package ban knows the settings by other names.
		if at := d.written(n.field + ".Max"); at != nil && b.Max < b.For {
			d.fail(at, shortTime(b.Max)+" is below for, "+shortTime(b.For), "raise it, or lower for")
		}
		spec := to.Addr().Interface().(*policy.RuleSpec) // the struct of the section
		if spec.Limit.Ban = b.Policy; b.Prefixes != nil {
			spec.Prefixes = *b.Prefixes
		}
		return ok
	}
	return v
}

// bans reports whether a rule bans anybody.
func bans(spec *policy.RuleSpec) bool { return spec.Limit.Ban.Enabled() }

// checkPrefixes reports what is wrong with the prefixes of each rule, and if there are too
// many rules with those that they make.
func (d *decoder) checkPrefixes() {
	n := len(d.cfg.Policy.Rules)
	for i := range d.cfg.Policy.Rules {
		r := &d.cfg.Policy.Rules[i]
		path := rulePath(i) + ".Limit.Ban"
		for _, err := range r.CheckPrefixes() {
			d.report(path, err)
		}
		before := n
		if n += r.Prefixes.Count(); n > limit.MaxRules && before <= limit.MaxRules {
			d.fail(d.place(path+".Prefixes"), fmt.Sprintf("each length makes a rule, and with these there are %d", n), fmt.Sprintf("write fewer: want at most %d", limit.MaxRules))
		}
	}
}

// reportMade reports what is wrong with the limit of a rule that prefixes have made.
func (d *decoder) reportMade(r *policy.RuleSpec, e *field.Error) {
	place, _ := r.Origin()
	if d.place(rulePath(place)).failed { // it follows from that
		return
	}
	fix := e.Fix
	if e.Field == "Rate" || e.Field == "Burst" {
		fix = "write other members, or another rate or burst of the rule"
	}
	d.fail(d.place(rulePath(place)+".Limit.Ban.Prefixes"), "makes rule "+r.Limit.Name+": "+e.Problem, fix)
}

// describeBans says for each rule that bans what clients may suffer from that, and for each
// that prefixes made what it counts.
func describeBans(b *strings.Builder, c *Config, p *fastlimit.Plan) {
	for i := range p.Rules {
		rp, spec := &p.Rules[i], &c.Policy.Rules[i]
		rc := &rp.Config
		who := "client"
		if place, made := spec.Origin(); made {
			who = "prefix"
			fmt.Fprintf(b, "rule %s: each %s is a client too, for everything that rule %s counts in it\n", rc.Name, spec.Counted(), c.Policy.Rules[place].Limit.Name)
		}
		if !rc.Ban.Enabled() {
			continue
		}
		fmt.Fprintf(b, "bans of rule %s: a %s that is denied %s is refused for %s", rc.Name, who, often(&rc.Ban), shortTime(rc.Ban.For))
		if rc.Ban.Max > rc.Ban.For {
			fmt.Fprintf(b, ", each time twice as long, up to %s", shortTime(rc.Ban.Max))
		}
		if rc.Mode == fastlimit.Shadow {
			b.WriteString(", except that mode: shadow only counts this")
		}
		fmt.Fprintf(b, "; up to %d at once, %s\n", rp.Bans, size(rp.BanBytes))
	}
}

// often is how many denials a policy takes within which time, for people.
func often(p *fastlimit.BanPolicy) string {
	if p.After == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times within %s", p.After, shortTime(p.Within))
}

// Prefixes that are shorter than these hold the clients of several networks: a /16 of IPv4 and
// a /32 of IPv6 are what providers get.
const shortest4, shortest6 = 16, 32

// banWarnings are about who else suffers from a ban.
func banWarnings(spec *policy.RuleSpec, warn warnFunc) {
	tellsApart := func(part policy.KeyPart) bool {
		return part.Kind == policy.KeyIP || part.Kind == policy.KeyHeader || part.Kind == policy.KeyCookie
	}
	if spec.Limit.Ban.Enabled() && !slices.ContainsFunc(spec.Key, tellsApart) {
		warn("ban: the key does not distinguish clients, so a ban refuses everybody that the rule applies to; remove it, or count by ip")
	}
	for _, of := range [...]struct {
		name     string
		lengths  []int
		shortest int
	}{{"v4", spec.Prefixes.V4, shortest4}, {"v6", spec.Prefixes.V6, shortest6}} {
		for _, n := range of.lengths {
			if n < of.shortest {
				warn("ban.prefixes.%s: a /%d contains the networks of many providers, all of which one attacker in it can get denied; write %d or more", of.name, n, of.shortest)
			}
		}
	}
}
