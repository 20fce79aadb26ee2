package liverules

import (
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

// Limit is what can change of a rule, as in force: a burst that nobody wrote is filled in.
type Limit struct {
	Mode  string `json:"mode"`
	Rate  string `json:"rate"`
	Burst uint64 `json:"burst"`
}

// Shown is a rule as operators see it. Its names are part of the contract.
type Shown struct {
	Rule string `json:"rule"`
	Limit
	File        Limit    `json:"file"`         // what the file says, and will be in force again
	SecondsLeft *float64 `json:"seconds_left"` // until then; null: nothing is live
	By          string   `json:"by,omitempty"` // who made the last change

	Nodes []NodeAnswer `json:"nodes,omitempty"` // for a change on all nodes: the results on the others
}

// List is the document of GET /v1/rules.
type List struct {
	Rules []Shown `json:"rules"` // in the order of the file
}

// List returns all rules.
func (s *Set) List() any {
	file, all := s.current()
	list := List{Rules: make([]Shown, 0, len(file))}
	for i := range file {
		var of *live
		for k := range all {
			if all[k].Rule == file[i].Limit.Name {
				of = &all[k]
			}
		}
		list.Rules = append(list.Rules, *s.shown(&file[i], of))
	}
	return list
}

// shown is a rule of the file with what is live for it, or nil for nothing.
func (s *Set) shown(spec *policy.RuleSpec, l *live) *Shown {
	now := spec.Limit
	shown := &Shown{Rule: now.Name, File: limitOf(&now)}
	if l != nil {
		l.on(&now)
		left := max(0, time.Until(l.until).Seconds())
		shown.SecondsLeft, shown.By = &left, l.by
	}
	shown.Limit = limitOf(&now)
	return shown
}

func limitOf(c *fastlimit.RuleConfig) Limit {
	l := Limit{c.Mode.String(), c.Rate.String(), c.Burst}
	if l.Burst == 0 {
		l.Burst = c.Rate.N
	}
	return l
}

// Left is the time until a rule reverts; 0: nothing is live for it.
func (s *Set) Left(rule string) time.Duration { return s.Ends()[rule] }

// Ends are the times until rules revert, by rule; 0 where nothing is live.
func (s *Set) Ends() map[string]time.Duration {
	file, all := s.current()
	ends := map[string]time.Duration{}
	for i := range file {
		ends[file[i].Limit.Name] = 0
	}
	for i := range all {
		ends[all[i].Rule] = max(0, time.Until(all[i].until))
	}
	return ends
}
