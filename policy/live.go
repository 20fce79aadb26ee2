package policy

import (
	"errors"
	"fmt"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
)

// LiveOverride is an override in addition to those of the settings, for as long as an
// engine has it: see [Engine.WithLive].
type LiveOverride struct {
	Rule int // its index in Settings.Rules
	Key  []string
	Tier *fastlimit.Rule // a live tier of the rule, which only this module makes; nil: the clients are not limited
}

// CheckOverride checks one override as if it were one of the settings, except for the limit
// itself, which is checked when the tier is made. It returns a name that no
// override of the rule for other clients has, however the key is written, and the maximum
// number of its clients, 0 if that is not known. The error joins everything that is wrong,
// each as a [fastlimit.FieldError] named Overrides[0].Key or the like.
func (r *RuleSpec) CheckOverride(o *Override) (name string, clients int, err error) {
	one := *r
	one.Overrides = []Override{*o}
	if err := one.checkOverrides(); err != nil {
		return "", 0, err
	}
	name, _ = r.overrideName(o) // checkOverrides has reported its error
	return name, max(0, r.clientsOf(o)), nil
}

// LimitOf returns the limit of an override as in [RuleSpec.Tiers], for so many clients.
func (o *Override) LimitOf(clients int) fastlimit.Tier {
	t := fastlimit.Tier{Rate: o.Rate, Burst: o.Burst, Clients: clients}
	if t.Burst == o.Rate.N {
		t.Burst = 0 // which means that
	}
	return t
}

// WithLive returns an engine with these live overrides instead of those of e. If a client
// also has an override in the settings, the one with the longer prefix decides, and if they
// are equal the live one. The result shares everything else with e, which does not change.
// The call takes time in proportion to the live overrides alone. s must be the settings
// that e was made from, and no two overrides may be for the same clients.
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
