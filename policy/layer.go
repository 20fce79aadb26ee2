package policy

import (
	"fmt"
	"net/netip"

	"github.com/fastlimit/fastlimit"
)

// overrides are the compiled overrides of a rule. Immutable.
type overrides struct {
	file, live *layer   // nil: there are none
	wide       bool     // some are for prefixes with many clients
	sieve      []uint64 // of file
}

// none reports whether one word of the sieve shows that a client has no override. It is
// inlined, which spares most clients of a rule a call: a thirtieth of a decision (bench
// overrides).
func (o *overrides) none(id uint64) bool {
	return o.live == nil && !o.wide && !sieveHas(o.sieve, id)
}

// layer holds the overrides of one source: the settings, or operators. Immutable once
// filled.
type layer struct {
	limits []*fastlimit.Rule       // distinct; nil: no limit
	index  map[*fastlimit.Rule]int // their indexes in limits
	keys   int                     // the number of keys it has room for
	exact  exact
	wide   wide
}

func newLayer(keys int) *layer {
	return &layer{index: map[*fastlimit.Rule]int{}, keys: keys, exact: newExact(keys)}
}

// newOverrides returns nil if there are none.
func newOverrides(file, live *layer) *overrides {
	if file == nil && live == nil {
		return nil
	}
	o := &overrides{file: file, live: live, wide: file != nil && !file.wide.empty() || live != nil && !live.wide.empty()}
	if file != nil {
		o.sieve = file.exact.sieve
	}
	return o
}

// fileLayer compiles the overrides of the settings for the rule that was made for them. It
// leaves out those that CheckOverrides rejects, and returns nil if there are none.
func (r *RuleSpec) fileLayer(limit *fastlimit.Rule) (*layer, error) {
	if len(r.Overrides) == 0 {
		return nil, nil
	}
	tiers, of := r.Tiers()
	if n := len(limit.Config().Tiers); n != len(tiers) {
		return nil, fmt.Errorf("fastlimit/policy: rule %q: the limiter has %d tiers for it, not %d: make both from the same settings", limit.Name(), n, len(tiers))
	}
	l := newLayer(len(r.Overrides))
	for i, tier := range of {
		var own *fastlimit.Rule
		if tier != unlimited {
			own = limit.Tier(int(tier))
		}
		_ = l.add(r, limit, &r.Overrides[i], own) // see above
	}
	return l, nil
}

// indexOf returns the index of a limit in l.limits, and adds it if it is new.
func (l *layer) indexOf(limit *fastlimit.Rule) int {
	i, ok := l.index[limit]
	if !ok {
		i = len(l.limits)
		l.limits, l.index[limit] = append(l.limits, limit), i
	}
	return i
}

// add enters an override of a rule: its clients have another limit, or none.
func (l *layer) add(r *RuleSpec, limit *fastlimit.Rule, o *Override, own *fastlimit.Rule) error {
	i := l.indexOf(own)
	if !r.byAddress() {
		parts, err := r.overrideParts(o)
		if err == nil {
			d := limit.BytesKey(parts...).Digest()
			l.exact.add(d.Pos, d.ID, i)
		}
		return err
	}
	p, err := r.overridePrefix(o)
	if err != nil {
		return err
	}
	if _, bits := r.grouping(p.Addr()); p.Bits() == bits {
		d := limit.AddrKey(p.Addr()).Digest()
		l.exact.add(d.Pos, d.ID, i)
	} else {
		l.wide.add(p, i, l.keys)
	}
	return nil
}

// find returns the limit of a client by its key and, if the rule counts by address, its
// address: the rule, or one of its tiers; nil if the client is unlimited. The longest
// prefix decides, and of two of the same length the live one. A single client is the
// longest prefix.
func (c *rule) find(key fastlimit.Key, client netip.Addr) *fastlimit.Rule {
	o, d := c.overrides, key.Digest()
	if l := o.live; l != nil && l.exact.may(d.ID) {
		if i := l.exact.find(d.Pos, d.ID); i >= 0 {
			return l.limits[i]
		}
	}
	if l := o.file; l != nil && l.exact.may(d.ID) {
		if i := l.exact.find(d.Pos, d.ID); i >= 0 {
			return l.limits[i]
		}
	}
	if o.wide {
		return c.findWide(client)
	}
	return c.limit
}

// findWide is find for a client whose key has no override.
func (c *rule) findWide(client netip.Addr) *fastlimit.Rule {
	limit, longest := c.limit, -1
	for _, l := range [...]*layer{c.overrides.live, c.overrides.file} {
		if l == nil {
			continue
		}
		if i, n := l.wide.find(client); n > longest {
			limit, longest = l.limits[i], n
		}
	}
	return limit
}
