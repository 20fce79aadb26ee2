package config

import (
	"fmt"
	"reflect"
	"strconv"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/ban"
	"github.com/fastlimit/fastlimit/internal/field"
	"github.com/fastlimit/fastlimit/policy"
)

const banExample = "ban: {after: 200, within: 10s, for: 30s, max: 1h}"

// banned is what the settings in ban fill: fields of a rule's limit and of its spec.
type banned struct {
	ban.Policy

	Prefixes *policy.Prefixes
}

// banTable fills banned.
func banTable() section {
	return section{
		name: "ban", want: "settings, such as " + banExample[len("ban: "):], where: "in ban, indented more than ban",
		settings: []setting{
			{
				name: "after", field: "After", value: whole(number{least: 1, most: ban.MaxAfter, example: "200"}), required: "write for example " + banExample,
				doc: "denials that begin a ban, the last of them included; an eighth of them for a client that is remembered for an earlier one",
			},
			{name: "within", field: "Within", value: duration(ban.MinWithin, ban.MaxWithin, "10s", ""), def: "10s", doc: "the time within which they count"},
			{name: "for", field: "For", value: duration(ban.MinFor, ban.MaxFor, "30s", ""), required: "write for example for: 30s", doc: "how long the first ban lasts; each further one lasts twice as long"},
			{name: "max", field: "Max", value: duration(ban.MinFor, ban.MaxFor, "1h", ""), shown: "that of `for`", doc: "how long a ban lasts at most"},
			{name: "prefixes", field: "Prefixes", value: mapping(&prefixSettings), shown: "none", doc: "networks that are clients too, with `key: ip` alone"},
		},
	}
}

// prefixTable fills policy.Prefixes.
func prefixTable() section {
	lengths := func(most uint64, example string) value {
		return listOf("list of 1 to "+strconv.FormatUint(most, 10), "a list of lengths such as ["+example+"]", whole(number{least: 1, most: most, example: example}))
	}
	return section{
		name: "prefixes", want: "settings, such as {v4: [24], v6: [56, 48], members: 16}", where: "in prefixes, indented more than prefixes",
		settings: []setting{
			{name: "v4", field: "V4", value: lengths(31, "24"), shown: "none", doc: "prefix lengths of IPv4, shorter than the rule's own grouping"},
			{name: "v6", field: "V6", value: lengths(127, "48"), shown: "none", doc: "prefix lengths of IPv6, likewise"},
			{
				name: "members", field: "Members", value: whole(number{least: policy.MinMembers, most: policy.MaxMembers, example: "16"}), def: strconv.Itoa(policy.DefaultMembers),
				doc: "how many times the rate and the burst of the rule such a prefix has",
			},
		},
	}
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
		if n += r.Prefixes.Count(); n > fastlimit.MaxRules && before <= fastlimit.MaxRules {
			d.fail(d.place(path+".Prefixes"), fmt.Sprintf("each length makes a rule, and with these there are %d", n), fmt.Sprintf("write fewer: want at most %d", fastlimit.MaxRules))
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
