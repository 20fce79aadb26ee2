package policy

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/fastlimit/fastlimit"
)

// Override gives some clients of a rule another limit.
type Override struct {
	// Key is the client's key, one text for each part of the rule's key, as in
	// [KeyText].Parts. For a rule that counts by address alone it may be a prefix that
	// contains many clients, each of which has the limit separately. The longest prefix
	// that contains a client decides.
	Key []string

	Rate  fastlimit.Rate // zero means the rule's
	Burst uint64         // 0 means the number in Rate; if Rate is zero too, the rule's

	// Unlimited clients are not charged. Rate and Burst must be zero.
	Unlimited bool
}

// DefaultMaxOverrides is used if Settings.MaxOverrides is 0.
const DefaultMaxOverrides = 100_000

// overrideBytes is the maximum memory of an override in an engine and in its settings
// (TestOverrideMemory).
const overrideBytes = 256

// OverrideMemory returns the memory that the overrides of all rules take, for
// [fastlimit.Config.Reserved].
func (s *Settings) OverrideMemory() int64 {
	n := int64(0)
	for i := range s.Rules {
		n += s.Rules[i].OverrideMemory()
	}
	return n
}

// OverrideMemory returns the share of one rule in [Settings.OverrideMemory].
func (r *RuleSpec) OverrideMemory() int64 { return int64(len(r.Overrides)) * overrideBytes }

// CheckOverrides joins everything that is wrong with the overrides of all rules, each as a
// [fastlimit.FieldError], except for the limits themselves: [fastlimit.NewPlan] checks
// those.
func (s *Settings) CheckOverrides() error {
	var errs []error
	n, most := 0, cmp.Or(s.MaxOverrides, DefaultMaxOverrides)
	for i := range s.Rules {
		r := &s.Rules[i]
		errs = append(errs, r.checkOverrides())
		if n += len(r.Overrides); n > most && n-len(r.Overrides) <= most {
			errs = append(errs, r.invalid("Overrides", "raise max_overrides, or give their clients a rule of their own", "%d overrides with those before, which is more than max_overrides, %d", n, most))
		}
	}
	return errors.Join(errs...)
}

// unlimited is the tier index of clients without limit.
const unlimited = -1

// Tiers returns the distinct limits of the rule's overrides, for
// [fastlimit.RuleConfig].Tiers, and for each override the index of its limit, or -1 if it
// is unlimited.
func (r *RuleSpec) Tiers() (tiers []fastlimit.Tier, of []int32) {
	index := map[fastlimit.Tier]int32{}
	of = make([]int32, len(r.Overrides))
	for i := range r.Overrides {
		o := &r.Overrides[i]
		if o.Unlimited {
			of[i] = unlimited
			continue
		}
		limit := o.LimitOf(0)
		k, ok := index[limit]
		if !ok {
			k = int32(len(tiers))
			index[limit] = k
			tiers = append(tiers, limit)
		}
		of[i] = k
		tiers[k].Clients = addClients(tiers[k].Clients, r.clientsOf(o))
	}
	for k := range tiers {
		tiers[k].Clients = max(0, tiers[k].Clients)
	}
	return tiers, of
}

// addClients adds numbers of clients, where -1 means not known.
func addClients(a, b int) int {
	if a < 0 || b < 0 {
		return -1
	}
	return a + b
}

// clientsOf returns the maximum number of clients of an override, or -1 if that is not
// known.
func (r *RuleSpec) clientsOf(o *Override) int {
	if !r.byAddress() {
		return 1
	}
	p, err := r.overridePrefix(o)
	if err != nil {
		return 1
	}
	_, bits := r.grouping(p.Addr())
	if free := bits - p.Bits(); free <= 24 {
		return 1 << max(0, free)
	}
	return -1
}

// byAddress reports whether the key is a client address and nothing else.
func (r *RuleSpec) byAddress() bool { return len(r.Key) == 1 && r.Key[0].Kind == KeyIP }

// checkOverrides joins everything that is wrong with the rule's overrides.
func (r *RuleSpec) checkOverrides() error {
	if len(r.Overrides) == 0 {
		return nil
	}
	var errs []error
	fail := func(i int, name, fix, format string, args ...any) {
		errs = append(errs, r.invalid(fmt.Sprintf("Overrides[%d].%s", i, name), fix, format, args...))
	}
	if len(r.Key) == 1 && r.Key[0].Kind == KeyGlobal {
		fail(0, "Key", "remove overrides, or count by another key", "the rule has one bucket for everybody, and no keys to override")
		return errors.Join(errs...)
	}
	first := make(map[string]int, len(r.Overrides))
	for i := range r.Overrides {
		o := &r.Overrides[i]
		switch {
		case o.Unlimited && (o.Rate != fastlimit.Rate{} || o.Burst != 0):
			fail(i, "Unlimited", "remove one of the two", "has no meaning with a rate or burst")
		case !o.Unlimited && o.Rate == fastlimit.Rate{} && o.Burst == 0:
			fail(i, "Rate", "write rate, burst or unlimited: true", "the override changes nothing")
		}
		name, err := r.overrideName(o)
		if err != nil {
			if e, ok := errors.AsType[*fastlimit.FieldError](err); ok {
				fail(i, "Key", e.Fix, "%s", e.Problem)
			}
			continue
		}
		if k, twice := first[name]; twice {
			fail(i, "Key", "remove one of the two", "%s has an override already, the %s", strings.Join(o.Key, ", "), ordinal(k+1))
		}
		first[name] = i
	}
	return errors.Join(errs...)
}

// ordinal returns the position with index n in words.
func ordinal(n int) string {
	suffix := "th"
	switch {
	case n/10%10 == 1:
	case n%10 == 1:
		suffix = "st"
	case n%10 == 2:
		suffix = "nd"
	case n%10 == 3:
		suffix = "rd"
	}
	return fmt.Sprintf("%d%s", n, suffix)
}
