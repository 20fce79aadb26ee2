package overrides

import (
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

// MaxShown is how many overrides of the file [Set.List] shows: the first ones.
const MaxShown = 1000

// Shown is an override as operators see it. Its names are part of the contract.
type Shown struct {
	Rule        string   `json:"rule"`
	Key         []string `json:"key"`
	Rate        string   `json:"rate,omitempty"`
	Burst       uint64   `json:"burst,omitempty"`
	Unlimited   bool     `json:"unlimited"`
	Source      string   `json:"source"`                 // file or live
	SecondsLeft *float64 `json:"seconds_left,omitempty"` // of a live one
	By          string   `json:"by,omitempty"`
	Problem     string   `json:"problem,omitempty"` // why it is not in force on this node
}

// List is the document of GET /v1/overrides: live ones first.
type List struct {
	Overrides []Shown `json:"overrides"`
	Live      int     `json:"live"` // in force on this node
	File      int     `json:"file"` // of which the first MaxShown are in Overrides
	Ignored   int     `json:"ignored_records"`
	Kept      string  `json:"kept_in"`
	AskedSecs float64 `json:"seconds_since_store_answered"`
}

// List returns the overrides of a rule or, if rule is "", of all. Its error, with a method HTTPStatus, is
// that there is neither such a rule here nor an override of it.
func (s *Set) List(rule string) (any, error) {
	st, on := s.Stats(), s.rules()
	l := List{Overrides: []Shown{}, File: on.file, Ignored: st.Ignored, Kept: s.config.Kept, AskedSecs: st.Age.Seconds()}
	for _, e := range s.current() {
		if e.deleted() || rule != "" && e.value.Rule != rule || !e.until.After(time.Now()) {
			continue
		}
		if e.inForce() {
			l.Live++
		}
		l.Overrides = append(l.Overrides, s.shown(e))
	}
	if _, err := on.rule(rule); err != nil && rule != "" && len(l.Overrides) == 0 {
		return nil, err
	}
	left := MaxShown
	for i := range on.policy.Rules {
		r := &on.policy.Rules[i]
		if rule != "" && r.Limit.Name != rule {
			continue
		}
		for k := 0; k < len(r.Overrides) && left > 0; k++ {
			l.Overrides = append(l.Overrides, on.ofFile(r.Limit.Name, &r.Overrides[k]))
			left--
		}
	}
	return l, nil
}

func (s *Set) shown(e *entry) Shown {
	left := max(0, time.Until(e.until).Seconds())
	return Shown{
		Rule: e.value.Rule, Key: s.rules().hide(e.value.Rule, e.value.Key), Rate: e.value.Rate, Burst: e.value.Burst, Unlimited: e.value.Unlimited,
		Source: "live", SecondsLeft: &left, By: e.value.By, Problem: e.wrong + e.problem,
	}
}

func (on *rules) ofFile(rule string, o *policy.Override) Shown {
	v := Shown{Rule: rule, Key: on.hide(rule, o.Key), Burst: o.Burst, Unlimited: o.Unlimited, Source: "file"}
	if o.Rate != (fastlimit.Rate{}) {
		v.Rate = o.Rate.String()
	}
	return v
}

// Stats are counts for metrics.
type Stats struct {
	Rules   []RuleStats
	Age     time.Duration // since the store last answered, or since the start
	Errors  uint64        // of asking it, and of changes
	Ignored int           // records in the store that are not overrides
	Unused  int           // live ones that are not in force on this node
	Bytes   int64         // taken by live ones
	Applied uint64        // how often the engine was replaced
}

// RuleStats are the overrides of a rule.
type RuleStats struct {
	Rule       string
	File, Live int
}

// Stats returns the counts.
func (s *Set) Stats() Stats {
	st := Stats{Age: time.Since(s.start) - time.Duration(s.asked.Load()), Errors: s.errors.Load(), Applied: s.swaps.Load()}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.on.policy.Rules {
		r := &s.on.policy.Rules[i]
		st.Rules = append(st.Rules, RuleStats{Rule: r.Limit.Name, File: len(r.Overrides)})
	}
	st.Ignored, st.Bytes = s.ignored, s.bytes
	for _, e := range s.entries {
		switch {
		case e.inForce():
			st.Rules[e.rule].Live++
		case !e.deleted():
			st.Unused++
		}
	}
	return st
}
