package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/field"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/policy"
)

const overridesExample = `write for example overrides: [{key: 192.0.2.7, rate: 1000/s, burst: 2000}, {key: 10.0.0.0/8, unlimited: true}]`

const maxOverrides = 10_000_000

// overrideSettings fills policy.Override, in the list of a rule.
var overrideSettings = section{
	name: "override", want: "an override such as {key: 192.0.2.7, rate: 1000/s}", where: "in an element of overrides", like: "rule",
	settings: []setting{
		{name: "key", field: "Key", value: overrideKey(), required: "write for example key: 192.0.2.7", doc: "the client: a text for each part of the rule's key; with `key: ip` an address or a prefix"},
		{name: "rate", field: "Rate", value: rate(), shown: "that of the rule", doc: "how much the client may send over time"},
		{name: "burst", field: "Burst", value: whole(number{least: 1, most: 1<<63 - 1, example: "2000"}), shown: "the number in `rate`, else that of the rule", doc: "how much the client may send at once"},
		{name: "unlimited", field: "Unlimited", value: boolean(), def: "false", doc: "this rule does not limit the client"},
	},
}

// overrideKey is one text or a list of them. Numbers are taken as they are written: keys
// of users often are.
func overrideKey() value {
	const want = "a key such as 192.0.2.7, 10.0.0.0/8 or, one text for each part of the rule's key, [alice, /login]"
	part := schema{"type": []string{"string", "number"}}
	return value{docs: "text, or list of them", schema: oneOrMoreSchema(part, maxKeyParts), read: func(d *decoder, n *node, to reflect.Value) bool {
		items, ok := d.oneOrMore(n, maxKeyParts, "parts")
		key := make([]string, len(items))
		for i, item := range items {
			s, read := d.scalar(item, want)
			key[i], ok = s.text, ok && read
		}
		to.Set(reflect.ValueOf(key))
		return ok
	}}
}

func overrideList() value {
	return listOf("list of overrides", "a list: "+overridesExample, mapping(&overrideSettings))
}

// overridesFile is the path of a file with an override on each line. It has room for more
// of them than YAML, whose parser takes 6 KiB for each.
func overridesFile() value {
	return valueOf("path", textSchema(), func(d *decoder, n *node) ([]policy.Override, bool) {
		text, ok := d.fileContent(n, "write overrides")
		if !ok {
			return nil, false
		}
		var all []policy.Override
		lines := []int{}
		number := 0
		for line := range strings.Lines(text) {
			number++
			o, problem, fix := parseOverride(line)
			switch {
			case problem != "":
				d.fail(n, fmt.Sprintf("line %d of %s: %s", number, quote(n.text), problem), fix)
				ok = false
			case len(o.Key) > 0:
				all, lines = append(all, o), append(lines, number)
			}
		}
		d.overrideLines[n.field] = lines
		return all, ok
	})
}

// parseOverride reads "KEY… rate=100/s burst=200" or "KEY… unlimited". Parts with spaces
// or quotes are in Go's double quotes. There is no key in a line that is empty or a comment.
func parseOverride(line string) (o policy.Override, problem, fix string) {
	rest := strings.TrimSpace(line)
	for rest != "" && rest[0] != '#' {
		word, quoted := rest, rest[0] == '"'
		if quoted {
			q, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return o, "quotes that do not end", `write a part with spaces in double quotes: "a b" rate=5/s`
			}
			word = q
		} else if end := strings.IndexAny(rest, " \t"); end >= 0 {
			word = rest[:end]
		}
		rest = strings.TrimLeft(rest[len(word):], " \t")
		if quoted {
			word, _ = strconv.Unquote(word)
		}
		if problem, fix = readWord(&o, word, quoted); problem != "" {
			return o, problem, fix
		}
	}
	switch {
	case len(o.Key) == 0 && (o.Unlimited || o.Burst != 0 || o.Rate != fastlimit.Rate{}):
		return o, "no key", "write for example 192.0.2.7 rate=1000/s burst=2000"
	case len(o.Key) > maxKeyParts:
		return o, fmt.Sprintf("%d parts of a key", len(o.Key)), fmt.Sprintf("want at most %d", maxKeyParts)
	}
	return o, "", ""
}

// readWord reads one word of a line.
func readWord(o *policy.Override, word string, quoted bool) (problem, fix string) {
	name, text, setting := strings.Cut(word, "=")
	switch {
	case quoted:
		o.Key = append(o.Key, word)
	case setting && name == "rate":
		r, err := fastlimit.ParseRate(text)
		for _, e := range field.All(err) {
			return e.Problem, e.Fix
		}
		o.Rate = r
	case setting && name == "burst":
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil || n == 0 {
			return quote(text) + " is not a burst", "write for example burst=2000"
		}
		o.Burst = n
	case word == "unlimited":
		o.Unlimited = true
	default:
		o.Key = append(o.Key, word)
	}
	return "", ""
}

// checkOverrides has package policy check the overrides of all rules. What it says of one
// that a file of overrides has is reported at the name of the file.
func (d *decoder) checkOverrides() {
	for _, e := range field.All(d.cfg.Policy.CheckOverrides()) {
		for i := range d.cfg.Policy.Rules {
			if d.cfg.Policy.Rules[i].Limit.Name == e.Rule {
				d.reportOverride(rulePath(i), e)
				break
			}
		}
	}
}

// reportOverride reports an error about a field of a rule, which may be one of its
// overrides.
func (d *decoder) reportOverride(path string, e *field.Error) {
	said := *e
	var i int
	var name string
	if n, _ := fmt.Sscanf(e.Field, "Overrides[%d].%s", &i, &name); n == 2 {
		if lines := d.overrideLines[path+".Overrides"]; i < len(lines) {
			said.Field = "Overrides"
			said.Problem = fmt.Sprintf("line %d: %s", lines[i], e.Problem)
		}
	}
	d.report(path, &said)
}

// ofTier is what is wrong with a tier of a rule as an error about the first override that
// has that limit. ok is false for other errors.
func ofTier(spec *policy.RuleSpec, e *field.Error) (said field.Error, ok bool) {
	var tier int
	var name string
	if n, _ := fmt.Sscanf(e.Field, "Tiers[%d].%s", &tier, &name); n != 2 {
		return *e, false
	}
	said = *e
	_, of := spec.Tiers()
	for i := range of {
		if int(of[i]) == tier {
			said.Field = fmt.Sprintf("Overrides[%d].%s", i, name)
			break
		}
	}
	return said, true
}

// overrideBytes is what the overrides of a rule take: to look them up, and the tables of
// their limits.
func overrideBytes(spec *policy.RuleSpec, rp *limit.RulePlan) int64 {
	n := spec.OverrideMemory()
	for i := range rp.Tiers {
		n += rp.Tiers[i].Bytes
	}
	return n
}

// describeOverrides says for each rule with overrides how many there are, and what they
// take of the memory.
func describeOverrides(b *strings.Builder, c *Config, p *fastlimit.Plan) {
	for i := range p.Rules {
		spec, rp := &c.Policy.Rules[i], &p.Rules[i]
		if n := len(spec.Overrides); n > 0 {
			fmt.Fprintf(b, "overrides of rule %s: %d, with %d different limits, %s\n", rp.Config.Name, n, len(rp.Tiers), size(overrideBytes(spec, rp)))
		}
	}
}
