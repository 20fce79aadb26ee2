package config

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit/legacy"
)

// Definitions of other limiters stand where a rate would: they fill Limit.Rate, so
// that a rule has exactly one of them, and what package fastlimit says of the rate
// is reported at the definition. A factor beside them may come later in the file,
// so they are translated when all is read.

// definition is a rule's limit as another limiter has it; one of the two is set.
type definition struct {
	limit  *legacy.Limit
	bucket *legacy.Bucket
}

// maxFactor is beyond any use; with it no product leaves the range of a rate.
const maxFactor = 1_000_000

// longest is the longest period of a rate.
const longest = 366 * 24 * time.Hour

// legacySettings fills legacy.Limit, whose fields are pointers: what is not written is
// not 0. A time of 0 is read, so that the error can say what it means.
var legacySettings = section{
	name: "legacy", want: "a mapping such as {max: 10, duration: 10s}", where: "in legacy, indented more than legacy",
	settings: []setting{
		{name: "max", field: "Max", value: whole(number{least: 1, most: math.MaxUint64, example: "10"}), shown: "none", doc: "requests in `duration`"},
		{name: "duration", field: "Duration", value: duration(0, longest, "10s", ""), shown: "none", doc: "the period of `max`"},
		{name: "min_interval", field: "MinInterval", value: duration(0, longest, "1s", ""), shown: "none", doc: "time between two requests; alone it is the limit, together with the others it makes larger drips"},
	},
}

// bucketSettings fills legacy.Bucket. Its defaults are those of the source.
var bucketSettings = section{
	name: "bucket", want: "a mapping such as {size: 10, drip_rate: 1s}", where: "in bucket, indented more than bucket",
	settings: []setting{
		{name: "size", field: "Size", value: whole(number{least: 1, most: math.MaxUint64, example: "10"}), required: "write for example size: 10", doc: "requests that an idle client may send at once"},
		{name: "drip_rate", field: "DripRate", value: duration(time.Millisecond, longest, "1s", ""), def: "1s", doc: "time between two drips"},
		{name: "drip_size", field: "DripSize", value: whole(number{least: 1, most: math.MaxUint64, example: "10"}), def: "1", doc: "requests that a drip makes room for"},
	},
}

// defined is the value of legacy or bucket, which keep makes a definition of.
func defined(s *section, keep func(*definition) any) value {
	return value{docs: "mapping", section: s, schema: schema{"$ref": "#/$defs/" + s.name}, read: func(d *decoder, n *node, _ reflect.Value) bool {
		def := new(definition)
		d.definitions[n.field] = def
		return s.read(d, n, reflect.ValueOf(keep(def)).Elem())
	}}
}

// legacyLimit is the value of legacy.
func legacyLimit() value {
	return defined(&legacySettings, func(def *definition) any { def.limit = new(legacy.Limit); return def.limit })
}

// legacyBucket is the value of bucket.
func legacyBucket() value {
	return defined(&bucketSettings, func(def *definition) any { def.bucket = new(legacy.Bucket); return def.bucket })
}

// factor is a number above 0 in plain decimal notation. It is kept until the
// definition that it scales is known.
func factor() value {
	s := orVariable(schema{"type": "number", "exclusiveMinimum": 0, "maximum": maxFactor})
	v := parsed("a number above 0", s, "a number such as 0.5", func(s scalar) (v float64, problem, fix string) {
		v, err := strconv.ParseFloat(s.text, 64)
		switch {
		case err != nil || !s.isNumber || strings.Trim(s.text, "-.0123456789") != "":
			return 0, quote(s.text) + " is not a decimal number", "write for example 0.5, without quotes"
		case v == 0:
			return 0, "0 means no limit", "remove the rule, or exempt clients with allow"
		case v < 0 || v > maxFactor:
			return 0, s.short() + " is out of range", "want a number above 0, at most " + strconv.Itoa(maxFactor)
		}
		return v, "", ""
	})
	read := v.read
	v.toStruct = true
	v.read = func(d *decoder, n *node, _ reflect.Value) bool {
		f := math.NaN() // what failed is not used: its node has failed too
		ok := read(d, n, reflect.ValueOf(&f).Elem())
		d.factors[n.field] = f
		return ok
	}
	return v
}

// translateLegacy gives the rules with such a definition their rate and burst.
func (d *decoder) translateLegacy() {
	for i := range d.cfg.Policy.Rules {
		path := rulePath(i)
		def, factor := d.definitions[path+".Limit.Rate"], d.places[path+".Factor"]
		if def == nil {
			if factor != nil && !factor.failed {
				d.fail(factor, "scales legacy or bucket, and the rule has neither", "remove it, and write the rate itself")
			}
			continue
		}
		at := d.places[path+".Limit.Rate"]
		_, name := cutLast(at.path)
		scale := 1.0
		if factor != nil {
			scale = d.factors[path+".Factor"]
		}
		burst, algorithm := d.written(path+".Limit.Burst"), d.written(path+".Limit.Algorithm")
		counts := d.textOf(algorithm)
		switch {
		case burst != nil:
			d.fail(burst, "is set together with "+name+", which already defines the burst", "remove one of the two")
		case periods[counts] != "":
			d.fail(algorithm, counts+" is set together with "+name+", which defines a bucket", "remove it, or write rate instead of "+name)
		case at.failed || factor != nil && factor.failed:
		default:
			d.translate(at, def, scale, i)
		}
		if d.cfg.Policy.Rules[i].Limit.Rate.N == 0 {
			at.failed = true // that there is no rate follows from the mistake
		}
	}
}

// translate fills in the limit of rule i from its definition, which stands at a
// node.
func (d *decoder) translate(at *node, def *definition, scale float64, i int) {
	limit, path := &d.cfg.Policy.Rules[i].Limit, rulePath(i)
	b := def.bucket
	if def.limit != nil {
		translated, limited, err := def.limit.Bucket()
		if err != nil || !limited {
			d.report(path+".Limit.Rate", err)
			d.reportUnlimited(at, def.limit, limited || err != nil)
			return
		}
		b = &translated // a factor scales it as it does a bucket
	}
	rate, burst, err := b.Scale(scale)
	if n := d.places[path+".Factor"]; n != nil {
		d.places[path+".Limit.Rate.Factor"] = n // what Scale calls it
	}
	if d.report(path+".Limit.Rate", err); err == nil {
		limit.Rate, limit.Burst = rate, burst
	}
}

// reportUnlimited reports a definition that limits nobody, as a pattern is that no
// request can match: the source ignores it without a word.
func (d *decoder) reportUnlimited(at *node, l *legacy.Limit, limited bool) {
	const remove = "remove the rule, or write for example {max: 10, duration: 10s}"
	switch {
	case limited:
	case l.Max != nil && l.Duration == nil:
		d.fail(at, "max without duration limits nobody", "add for example duration: 10s")
	case l.Max == nil && l.Duration != nil:
		d.fail(at, "duration without max limits nobody", "add for example max: 10")
	case l.Duration != nil:
		d.fail(at, fmt.Sprintf("duration %v means no limit", *l.Duration), remove)
	case l.MinInterval != nil:
		d.fail(at, fmt.Sprintf("min_interval %v alone means no limit", *l.MinInterval), remove)
	default:
		d.fail(at, "limits nobody", "write for example {max: 10, duration: 10s}")
	}
}
