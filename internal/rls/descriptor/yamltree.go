package descriptor

import (
	"fmt"
	"math"
	"strings"

	"go.yaml.in/yaml/v3"
)

func (r *reader) root(c *Config, n *yaml.Node) {
	c.Place = placeOf(n)
	r.mapping(n, "a file", map[string]setting{
		"domain": func(n *yaml.Node) {
			c.Place = placeOf(n)
			r.text(&c.Domain, "domain")(n)
		},
		"descriptors": r.descriptors(&c.Descriptors),
	})
}

func (r *reader) descriptors(into *[]Descriptor) setting {
	return func(n *yaml.Node) {
		r.list(n, "descriptors", func(n *yaml.Node) {
			d := Descriptor{Place: placeOf(n)}
			r.descriptor(&d, n)
			*into = append(*into, d)
		})
	}
}

func (r *reader) descriptor(d *Descriptor, n *yaml.Node) {
	r.mapping(n, "a descriptor", map[string]setting{
		"key":             r.text(&d.Key, "key"),
		"value":           r.text(&d.Value, "value"),
		"rate_limit":      func(n *yaml.Node) { r.policy(d, n) },
		"descriptors":     r.descriptors(&d.Descriptors),
		"shadow_mode":     r.bool(&d.Shadow, "shadow_mode"),
		"quota_mode":      r.bool(&d.Quota, "quota_mode"),
		"detailed_metric": r.bool(&d.DetailedMetric, "detailed_metric"),
		"value_to_metric": r.bool(&d.ValueToMetric, "value_to_metric"),
		"share_threshold": r.bool(&d.ShareThreshold, "share_threshold"),
		"metadata":        func(n *yaml.Node) { r.metadata(d, n) },
	})
}

func (r *reader) policy(d *Descriptor, n *yaml.Node) {
	if n = r.resolve(n); isNull(n) {
		return
	}
	p := &Policy{Place: placeOf(n)}
	d.Limit = p
	r.mapping(n, "a rate_limit", map[string]setting{
		"unit": func(n *yaml.Node) {
			p.Place = placeOf(n)
			r.text(&p.UnitText, "unit")(n)
			p.Unit = unitNamed(p.UnitText)
		},
		"requests_per_unit": func(n *yaml.Node) {
			if n = r.resolve(n); !isNull(n) && (n.Tag != "!!int" || n.Decode(&p.Requests) != nil) {
				r.fail(placeOf(n), "requests_per_unit", "is "+describe(n), fmt.Sprintf("want a whole number, 0 to %d", uint32(math.MaxUint32)))
			}
		},
		"unlimited": r.bool(&p.Unlimited, "unlimited"),
		"name":      r.text(&p.Name, "name"),
		"replaces":  func(n *yaml.Node) { r.replaces(p, n) },
	})
}

func (r *reader) replaces(p *Policy, n *yaml.Node) {
	r.list(n, "replaces", func(n *yaml.Node) {
		var name string
		r.mapping(n, "an item of replaces", map[string]setting{"name": r.text(&name, "name")})
		p.Replaces = append(p.Replaces, name)
	})
}

// metadata reads what the answer is to carry: any mapping of what JSON has too.
func (r *reader) metadata(d *Descriptor, n *yaml.Node) {
	n = r.resolve(n)
	if isNull(n) {
		return
	}
	v, ok := r.value(n).(map[string]any)
	if !ok {
		r.fail(placeOf(n), "metadata", "is "+describe(n), "want a mapping")
		return
	}
	d.Metadata = v
}

func (r *reader) value(n *yaml.Node) any {
	r.depth++
	defer func() { r.depth-- }()
	if r.depth > maxNesting {
		r.fail(placeOf(n), "metadata", fmt.Sprintf("nested deeper than %d levels", maxNesting), "flatten it")
		return nil
	}
	if r.tooMany(n) {
		return nil
	}
	switch n = r.resolve(n); n.Kind {
	case yaml.MappingNode:
		all := map[string]any{}
		r.each(n, map[string]Place{}, func(key, value *yaml.Node) { all[key.Value] = r.value(value) })
		return all
	case yaml.SequenceNode:
		all := make([]any, len(n.Content))
		for i, item := range n.Content {
			all[i] = r.value(item)
		}
		return all
	}
	return scalar(n)
}

// scalar is a number, bool or null of YAML, and else text.
func scalar(n *yaml.Node) any {
	var number float64
	var yes bool
	switch {
	case isNull(n):
		return nil
	case n.Tag == "!!bool" && n.Decode(&yes) == nil, n.Tag == "!!str" && n.Style == 0 && n.Decode(&yes) == nil:
		return yes // yes, no, on and off too, as in YAML 1.1
	case (n.Tag == "!!int" || n.Tag == "!!float") && n.Decode(&number) == nil:
		return number
	}
	return n.Value
}

// unitNamed returns the unit of a name in any case, 0 if there is none.
func unitNamed(name string) Unit {
	for u := Second; u.Valid(); u++ {
		if strings.EqualFold(name, u.String()) {
			return u
		}
	}
	return 0
}
