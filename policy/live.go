package policy

import (
	"errors"
	"fmt"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
)

// LiveOverride is an override beside those of the settings, for as long as an engine has
// it: see [Engine.WithLive].
type LiveOverride struct {
	Rule int // its place in Settings.Rules
	Key  []string
	Tier *fastlimit.Rule // of NewTier of [fastlimit.Rule.Internal]; nil: the clients are not limited
}

// CheckOverride checks one override as it would be checked among those of the settings,
// but for the limit itself, which NewTier of [fastlimit.Rule.Internal] checks. It returns a name that
// no override of the rule for other clients has, however the key is written, and for how
// many clients it is at most, 0 if that is not known. The error joins all that is wrong,
// each a [fastlimit.FieldError] named Overrides[0].Key or the like.
func (r *RuleSpec) CheckOverride(o *Override) (name string, clients int, err error) {
	one := *r
	one.Overrides = []Override{*o}
	if err := one.checkOverrides(); err != nil {
		return "", 0, err
	}
	name, _ = r.overrideName(o) // checkOverrides has reported its error
	return name, max(0, r.clientsOf(o)), nil
}

// LimitOf is the limit of an override as [RuleSpec.Tiers] has it, for so many clients.
func (o *Override) LimitOf(clients int) fastlimit.Tier {
	t := fastlimit.Tier{Rate: o.Rate, Burst: o.Burst, Clients: clients}
	if t.Burst == o.Rate.N {
		t.Burst = 0 // which means that
	}
	return t
}

// WithLive returns an engine with these live overrides, instead of those that e has. Of a
// client for which there is also one in the settings, the one with the longer prefix
// decides, and if they are equal the live one. It shares all else with e, which stays as it
// is, and takes time in proportion to the live overrides alone. s are the settings e was
// made of. No two are for the same clients.
func (e *Engine) WithLive(s *Settings, all []LiveOverride) (*Engine, error) {
	next := *e
	next.rules = append([]rule(nil), e.rules...)
	next.listed = next.rules[:len(e.listed)]
	layers := make([]*layer, len(e.rules))
	var errs []error
	byRule := make([]int, len(e.rules))
	for i := range all {
		byRule[all[i].Rule]++
	}
	for i := range all {
		o := &all[i]
		c := &next.rules[o.Rule]
		if o.Tier != nil && ((*engine.Rule)(o.Tier).Base() != (*engine.Rule)(c.limit) || o.Tier == c.limit) {
			errs = append(errs, fmt.Errorf("fastlimit/policy: rule %q: the tier is not one of its", c.limit.Name()))
			continue
		}
		l := layers[o.Rule]
		if l == nil {
			l = newLayer(byRule[o.Rule])
			layers[o.Rule] = l
		}
		errs = append(errs, l.add(&s.Rules[o.Rule], c.limit, &Override{Key: o.Key}, o.Tier))
	}
	for i, live := range layers {
		var file *layer
		if of := next.rules[i].overrides; of != nil {
			file = of.file
		}
		next.rules[i].overrides = newOverrides(file, live)
	}
	return &next, errors.Join(errs...)
}
