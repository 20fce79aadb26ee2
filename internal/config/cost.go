package config

import (
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

// costFromSettings fills policy.CostSource.
var costFromSettings = section{
	name: "cost_from", want: "a mapping such as {header: X-Cost}", where: "in cost_from, indented more than cost_from",
	oneOf: []string{"header", "response_header"}, example: "write for example cost_from: {header: X-Cost}",
	settings: []setting{
		{name: "header", field: "Header", value: header(), doc: "the header in which trusted proxies name the cost of a request, overwriting what clients send"},
		{name: "response_header", field: "ResponseHeader", value: header(), doc: "the header in which the app names the cost of a request in its answer; needs `upstream`"},
		{name: "fractions", field: "Fractions", value: boolean(), def: "false", doc: "costs may have up to three decimals"},
	},
}

const rateFromExample = "write for example rate_from: {header: X-Limit, max: 1000/s}"

// rateFromSettings fills policy.RateSource.
var rateFromSettings = section{
	name: "rate_from", want: "a mapping such as {header: X-Limit, max: 1000/s}", where: "in rate_from, indented more than rate_from",
	settings: []setting{
		{name: "header", field: "Header", value: header(), required: rateFromExample, doc: "the header in which trusted proxies name the rate of a client, overwriting what clients send"},
		{name: "max", field: "Max", value: rate(), required: rateFromExample, doc: "the highest rate; a client with a higher rate in the header gets this"},
	},
}

// amount is a cost as fastlimit.RuleConfig has it.
type amount struct {
	cost        uint64
	thousandths bool
}

// ruleCost is a whole cost, or one with up to three decimals, which makes the rule count in
// thousandths.
func ruleCost() value {
	whole := number{least: 1, most: math.MaxUint64, example: "1"}
	s := orVariable(schema{"type": "number", "minimum": 0.001})
	v := parsed("0.001 and more", s, "a number such as 1 or 0.5", func(s scalar) (a amount, problem, fix string) {
		if !strings.Contains(s.text, ".") || !s.isNumber {
			a.cost, problem, fix = whole.parse(s)
			return a, problem, fix
		}
		n, ok := policy.ParseCost([]byte(s.text), 1000)
		switch {
		case !ok && strings.Trim(s.text, "0.") == "":
			return a, s.short() + " is too small", "want at least 0.001"
		case !ok:
			return a, quote(s.text) + " is not a number of units with up to three decimals", "write for example 1 or 0.5, at least 0.001"
		case n%1000 == 0:
			return amount{n / 1000, false}, "", ""
		}
		return amount{n, true}, "", ""
	})
	read := v.read
	v.toStruct = true
	v.read = func(d *decoder, n *node, to reflect.Value) bool {
		var a amount
		if !read(d, n, reflect.ValueOf(&a).Elem()) {
			return false
		}
		limit := fieldOf(to, "Limit").Addr().Interface().(*fastlimit.RuleConfig) // that of the section
		limit.Cost, limit.Thousandths = a.cost, a.thousandths
		return true
	}
	return v
}

// placeFractions says where a rule got its fractional costs from: for what package fastlimit
// says of them.
func (d *decoder) placeFractions(path string) {
	for _, field := range []string{".CostFrom.Fractions", ".Limit.Cost"} {
		if at := d.written(path + field); at != nil {
			d.places[path+".Limit.Thousandths"] = at
		}
	}
}

// checkCosts has package policy check what names costs and rates.
func (d *decoder) checkCosts() {
	for i := range d.cfg.Policy.Rules {
		d.placeFractions(rulePath(i))
		d.report(rulePath(i), d.cfg.Policy.Rules[i].CheckCostFrom())
		d.report(rulePath(i), d.cfg.Policy.Rules[i].CheckRateFrom())
	}
}

// checkOnBadCost reports an on_bad_cost of the rule n that has no meaning.
func (d *decoder) checkOnBadCost(n *node) {
	on := d.written(n.field + ".OnBadCost")
	if on == nil {
		return
	}
	switch {
	case d.places[n.field+".CostFrom"] == nil:
		d.fail(on, "has no meaning without cost_from, which names the header with the cost", "remove it, or add cost_from: {header: X-Cost}")
	case d.places[n.field+".CostFrom.ResponseHeader"] != nil:
		d.cfg.fileWarnings = append(d.cfg.fileWarnings, "rule "+d.textOf(d.written(n.field+".Limit.Name"))+": on_bad_cost has no effect with response_header: a request whose answer has a bad cost has already been served, and costs what cost says; remove it")
	}
}

// checkAnswered reports costs that are to come from answers where nobody sees any.
func (d *decoder) checkAnswered() {
	for i := range d.cfg.Policy.Rules {
		at := d.written(rulePath(i) + ".CostFrom.ResponseHeader")
		if at != nil && d.cfg.Server.Upstream == nil && d.places["Server.Upstream"] == nil {
			d.fail(at, "needs upstream: a decision service sees no answer", `add for example upstream: "http://127.0.0.1:3000", or write header instead`)
		}
	}
}

// namedWarnings are about costs and rates that proxies name.
func namedWarnings(spec *policy.RuleSpec, proxied bool, warn warnFunc) {
	cost, rate := spec.CostFrom.Header, spec.RateFrom.Header
	for _, from := range [...]struct{ setting, header string }{{"cost_from", cost}, {"rate_from", rate}} {
		if from.header != "" && !proxied {
			warn("%s: %s is read from trusted proxies only, and there are none; set trusted_proxies", from.setting, from.header)
		}
	}
	if most := spec.RateFrom.Max; rate != "" && most.PerSecond() < spec.Limit.Rate.PerSecond() {
		warn("rate_from.max: %v is below rate, %v: clients with a rate in the header get less than the others; raise it, or lower rate", most, spec.Limit.Rate)
	}
	if rate != "" && cost == rate {
		warn("cost_from, rate_from: no text in %s can be both a cost and a rate; use two headers", cost)
	}
}

// ownHeaderWarnings are about headers that name no cost and no rate.
func ownHeaderWarnings(spec *policy.RuleSpec, warn warnFunc) {
	for _, from := range [...]struct{ setting, header, what string }{{"cost_from", spec.CostFrom.Header, "cost"}, {"rate_from", spec.RateFrom.Header, "rate"}} {
		switch {
		case from.header == "Host":
			warn("%s: Host is the name of a site, never a %s; name a header that your proxy sets", from.setting, from.what)
		case slices.Contains([]string{"Content-Length", "Content-Type", "User-Agent"}, from.header):
			warn("%s: %s comes from the client, even behind a proxy; name a header that your proxy sets", from.setting, from.header)
		}
	}
}
