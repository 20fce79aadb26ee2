package liverules

import (
	"slices"
	"time"
)

// Saved is what is live for a rule, for the next process.
type Saved struct {
	Rule string
	Mode string `json:",omitempty"`
	Rate string `json:",omitempty"`

	Burst uint64        `json:",omitempty"`
	By    string        `json:",omitempty"`
	Left  time.Duration // when it was saved
}

// Shared is what nodes have exchanged, for the next process.
type Shared []record

// SaveShared returns what other nodes would have to send again.
func (s *Set) SaveShared() Shared { return s.records() }

// RestoreShared adds what was saved age ago to what is known. It changes no rule: Restore applies what was in
// force. Call it first.
func (s *Set) RestoreShared(all Shared, age time.Duration) {
	for i := range all {
		if c, ok := all[i].read(age); ok && c.version.compare(s.known(c.Rule)) > 0 && s.sharedCount() < mostShared {
			s.keep(&c)
		}
	}
}

// Save returns what would end with the process.
func (s *Set) Save() (saved []Saved) {
	_, all := s.current()
	for i := range all {
		l := &all[i]
		if left := time.Until(l.until); left > 0 {
			saved = append(saved, Saved{l.Rule, l.Mode, l.Rate, l.Burst, l.by, left})
		}
	}
	return saved
}

// Restore applies what was saved age ago, except for rules that have been changed since, that are gone, or
// whose time is up. It replaces an earlier Restore: the process that this one takes over from may have
// changed or reverted it. It returns how many rules are changed by it. With an error nothing has changed.
func (s *Set) Restore(saved []Saved, age time.Duration) (n int, err error) {
	s.config.Changing.Lock()
	defer s.config.Changing.Unlock()
	file, all := s.current()
	rest, now := slices.DeleteFunc(slices.Clone(all), func(l live) bool { return l.restored }), time.Now()
	before := len(rest)
	for _, r := range saved {
		c := change{r.Rule, r.Mode, r.Rate, r.Burst}
		if r.Left <= age || find(file, r.Rule) < 0 || c.check() != nil || slices.ContainsFunc(rest, func(l live) bool { return l.Rule == r.Rule }) {
			continue
		}
		rest = append(rest, live{c, r.By, now.Add(r.Left - age), true})
	}
	if n = len(rest) - before; n == 0 && before == len(all) {
		return 0, nil
	}
	if err = s.config.Apply(changed(file, rest)); err != nil {
		return 0, err
	}
	s.set(file, rest)
	return n, nil
}
