package policy

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"net/netip"
	"slices"
	"strconv"

	"github.com/fastlimit/fastlimit"
)

// Prefixes makes the prefixes that the clients of a rule are in clients too, against
// attackers that send from many addresses of one network, each within its limit. Each
// length makes a further rule; see [Settings.Expanded]. The zero value makes none.
type Prefixes struct {
	V4, V6 []int // lengths, each shorter than the rule's grouping

	// Members is the factor by which the rate and the burst of a prefix are higher than the
	// rule's, from MinMembers to MaxMembers. 0 means DefaultMembers.
	Members int
}

// Bounds of Prefixes.Members. With 1 a prefix could take no more than one of its clients.
const (
	DefaultMembers = 16
	MinMembers     = 2
	MaxMembers     = 65536
)

// families are the address families that a rule counts. 0 means both.
type families uint8

const (
	family4 families = 1 << iota
	family6
)

func familyOf(addr netip.Addr) families {
	if addr.Is4() {
		return family4
	}
	return family6
}

// String returns the name that messages use for the clients of a family.
func (f families) String() string {
	return nameOf(f, "all", "IPv4", "IPv6", "IPv4 and IPv6")
}

// None reports whether no prefixes are clients.
func (p *Prefixes) None() bool { return len(p.V4)+len(p.V6) == 0 }

// lengths returns the lengths of both families, each once, those of IPv4 first and in
// order, and the families of each length.
func (p *Prefixes) lengths() (all []int, of map[int]families) {
	of = map[int]families{}
	for _, f := range [...]struct {
		family  families
		lengths []int
	}{{family4, p.V4}, {family6, p.V6}} {
		for _, n := range f.lengths {
			if of[n] == 0 {
				all = append(all, n)
			}
			of[n] |= f.family
		}
	}
	return all, of
}

// Count returns the number of rules that the lengths make: one if both families have the
// same.
func (p *Prefixes) Count() int {
	all, _ := p.lengths()
	return len(all)
}

// PrefixRule returns the name of the rule that a prefix length makes from another rule,
// such as per-ip/24. No name in a configuration file has a slash.
func PrefixRule(name string, length int) string { return name + "/" + strconv.Itoa(length) }

// Expanded returns the settings with the rules that Prefixes make added after all others,
// so that these keep their indexes. Such a rule has the name of [PrefixRule] and is like
// the rule that it is made from, with its match, mode, algorithm, on_failure and ban,
// except that
//   - it counts by prefixes of its length, and only clients of the families with that
//     length,
//   - its rate and burst are Members times those of the rule,
//   - it has no overrides, nor a MaxWait or MaxRate.
//
// A request is charged to it when it is charged to the rule, and for as much, unless an
// override or a named rate gives the client more than the rule does, or no limit.
// [Settings.Limits] and [New] call Expanded themselves. Expanded does not change settings
// that are already expanded.
func (s *Settings) Expanded() Settings {
	out := *s
	for i := range s.Rules {
		if s.Rules[i].origin > 0 {
			return out // already expanded
		}
	}
	out.Rules = slices.Clip(s.Rules)
	for i := range s.Rules {
		all, of := s.Rules[i].Prefixes.lengths()
		for _, n := range all {
			out.Rules = append(out.Rules, s.Rules[i].ofPrefix(i, n, of[n]))
		}
	}
	return out
}

// ofPrefix returns the rule that a length makes from rule i.
func (r *RuleSpec) ofPrefix(i, length int, of families) RuleSpec {
	made := *r
	made.Prefixes, made.Overrides, made.RateFrom = Prefixes{}, nil, RateSource{}
	made.origin, made.families = i+1, of
	limit := &made.Limit
	limit.Name = PrefixRule(r.Limit.Name, length)
	limit.MaxWait, limit.MaxRate, limit.Tiers = 0, fastlimit.Rate{}, nil
	members := uint64(cmp.Or(r.Prefixes.Members, DefaultMembers))
	if limit.Burst != 0 {
		limit.Burst = times(limit.Burst, members)
	}
	limit.Rate.N = times(limit.Rate.N, members)
	if of&family4 != 0 {
		limit.IPv4Prefix = length
	}
	if of&family6 != 0 {
		limit.IPv6Prefix = length
	}
	return made
}

// times returns a·b, saturated above every rate and burst.
func times(a, b uint64) uint64 {
	if hi, lo := bits.Mul64(a, b); hi == 0 {
		return lo
	}
	return math.MaxUint64
}

// Origin returns the index in Settings.Rules of the rule that this one was made from by its
// Prefixes. made is false for a rule of the settings.
func (r *RuleSpec) Origin() (place int, made bool) { return r.origin - 1, r.origin > 0 }

// Counted describes what a rule that Prefixes made counts, such as "IPv4 /24". It returns
// "" for any other rule.
func (r *RuleSpec) Counted() string {
	if r.origin == 0 {
		return ""
	}
	length := r.Limit.IPv4Prefix
	if r.families == family6 {
		length = r.Limit.IPv6Prefix
	}
	return fmt.Sprintf("%v /%d", r.families, length)
}

// CheckPrefixes returns all that is wrong with Prefixes, each a [fastlimit.FieldError],
// except for the limits of the rules that they make: [fastlimit.NewPlan] checks those.
func (r *RuleSpec) CheckPrefixes() []error {
	p := &r.Prefixes
	var errs []error
	fail := func(name, fix, format string, args ...any) {
		errs = append(errs, r.invalid("Prefixes"+name, fix, format, args...))
	}
	switch {
	case p.None() && p.Members == 0:
		return nil
	case p.None():
		fail("", "write for example v6: [56, 48]", "has no prefix length")
		return errs
	case !r.byAddress():
		fail("", "remove it, or count by key: ip", "is for rules whose key is ip alone: other clients are in no prefix")
		return errs
	}
	if m := p.Members; m != 0 && (m < MinMembers || m > MaxMembers) {
		fail(".Members", fmt.Sprintf("want %d to %d", MinMembers, MaxMembers), "%d is out of range", m)
	}
	group4, group6 := cmp.Or(r.Limit.IPv4Prefix, 32), cmp.Or(r.Limit.IPv6Prefix, 64)
	for _, f := range [...]struct {
		name    string
		lengths []int
		group   int
	}{{".V4", p.V4, group4}, {".V6", p.V6, group6}} {
		for i, n := range f.lengths {
			name := fmt.Sprintf("%s[%d]", f.name, i)
			switch {
			case n < 1 || n >= f.group:
				fail(name, fmt.Sprintf("want 1 to %d", f.group-1), "/%d does not contain several clients of the rule, which are /%d each", n, f.group)
			case slices.Contains(f.lengths[:i], n):
				fail(name, "remove one of the two", "/%d is there twice", n)
			}
		}
	}
	return errs
}

// setPrefixes links the rules of an engine with the rules that count the prefixes of their
// clients.
func (e *Engine) setPrefixes(specs []RuleSpec) {
	listed := len(specs)
	for i := range specs {
		if place, made := specs[i].Origin(); made {
			c := &e.rules[i]
			c.families, c.origin = specs[i].families, place
			e.rules[place].prefixes = append(e.rules[place].prefixes, i)
			e.rules[place].special = true
			listed--
		}
	}
	e.listed = e.rules[:listed]
}

// chargeSpecial collects what to charge for a request by a rule that takes costs or rates
// from trusted proxies, or whose prefixes are clients too. limit is the client's.
func (e *Engine) chargeSpecial(c *rule, limit *fastlimit.Rule, key fastlimit.Key, r *Request, s *Scratch) {
	cost := c.cost
	if c.headed && r.Trusted && r.Fields != nil {
		limit, cost = c.named(r.Fields, limit, s)
	}
	s.charges = append(s.charges, fastlimit.Charge{Rule: limit, Key: key, Cost: cost})
	if len(c.prefixes) == 0 || limit != c.limit && raises(limit, c.limit) {
		return
	}
	family := familyOf(s.client)
	for _, i := range c.prefixes {
		p := &e.rules[i]
		if p.families&family == 0 {
			continue
		}
		own, key := p.limit, p.limit.AddrKey(s.client)
		if p.overrides != nil {
			if own = p.find(key, s.client); own == nil {
				s.unlimited = append(s.unlimited, p.limit)
				continue
			}
		}
		s.charges = append(s.charges, fastlimit.Charge{Rule: own, Key: key, Cost: cost})
	}
}

// raises reports whether the limit of a client gives it more than that of its rule. Such a
// client does not count towards a prefix, which would take away what it was given.
func raises(limit, rule *fastlimit.Rule) bool {
	own, base := limit.Config(), rule.Config()
	ownHi, ownLo := bits.Mul64(own.Rate.N, uint64(base.Rate.Per))
	baseHi, baseLo := bits.Mul64(base.Rate.N, uint64(own.Rate.Per))
	return own.Burst > base.Burst || ownHi > baseHi || ownHi == baseHi && ownLo > baseLo
}

// checkFamily returns an error for a client whose family the rule does not count.
func (c *rule) checkFamily(addr netip.Addr) error {
	if c.families != 0 && c.families&familyOf(addr) == 0 {
		return fmt.Errorf("key %q: the rule counts prefixes of %v clients only", addr, c.families)
	}
	return nil
}
