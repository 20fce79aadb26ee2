package ban

import (
	"errors"
	"fmt"
	"time"

	"github.com/fastlimit/fastlimit/internal/field"
)

// Policy says who is banned, and for how long. The zero value bans nobody.
type Policy struct {
	// After is how many denials within Within begin a ban, of which the last one is
	// answered with it: 1 to MaxAfter. A client that is still remembered for a ban
	// needs an eighth of them, rounded up.
	After int

	// Within is the time within which they count, MinWithin to MaxWithin. 0 means
	// DefaultWithin.
	Within time.Duration

	// For is how long the first ban lasts, at least MinFor.
	For time.Duration

	// Max is how long a ban may last, at most MaxFor: each further ban lasts twice as
	// long as the one before it. 0 means For.
	Max time.Duration
}

// Bounds and defaults of a [Policy].
const (
	MaxAfter      = 1<<16 - 1
	DefaultWithin = 10 * time.Second
	MinWithin     = time.Second
	MaxWithin     = 10 * time.Minute
	MinFor        = time.Second
	MaxFor        = 366 * 24 * time.Hour

	// remembered is for how many of its lengths a ban is remembered after its end
	// before the length is halved, and repeat the share of After that a client needs
	// for as long as it is.
	remembered, repeat = 10, 8
)

// Enabled reports whether the policy bans anybody.
func (p *Policy) Enabled() bool { return p.After > 0 }

// WithDefaults returns the policy with its defaults filled in. The error joins all that
// is wrong with it, each as a field named Ban.After or the like, without package and rule.
func (p Policy) WithDefaults() (Policy, error) {
	if p == (Policy{}) {
		return p, nil
	}
	var errs []error
	bad := func(name, fix, format string, args ...any) {
		errs = append(errs, &field.Error{Field: "Ban." + name, Problem: fmt.Sprintf(format, args...), Fix: fix})
	}
	if p.Within == 0 {
		p.Within = DefaultWithin
	}
	if p.Max == 0 {
		p.Max = p.For
	}
	if p.After < 1 || p.After > MaxAfter {
		bad("After", fmt.Sprintf("want 1 to %d", MaxAfter), "%d is out of range", p.After)
	}
	if p.Within < MinWithin || p.Within > MaxWithin {
		bad("Within", fmt.Sprintf("want %v to %v", MinWithin, MaxWithin), "%v is out of range", p.Within)
	}
	switch {
	case p.For < MinFor || p.For > MaxFor:
		bad("For", fmt.Sprintf("want %v to %v", MinFor, MaxFor), "%v is out of range", p.For)
	case p.Max < p.For:
		bad("Max", "raise it, or lower For", "%v is below For %v", p.Max, p.For)
	case p.Max > MaxFor:
		bad("Max", fmt.Sprintf("want at most %v", MaxFor), "%v is out of range", p.Max)
	}
	return p, errors.Join(errs...)
}

// Memory bounds the time for which a client is remembered after the end of a ban.
func (p *Policy) Memory() time.Duration { return 2 * remembered * p.Max }

// fade is the length that a ban counts with so long after its end, 0 when it is forgotten:
// it is halved after ten lengths, again after ten of what remains, and so on.
func (p *Policy) fade(length, since time.Duration) time.Duration {
	for length >= p.For {
		if since < remembered*length {
			return length
		}
		since -= remembered * length
		length /= 2
	}
	return 0
}

// next is the length of the ban after one that counts with length, 0 if there was none.
func (p *Policy) next(length time.Duration) time.Duration {
	if length == 0 {
		return p.For
	}
	return min(2*length, p.Max)
}

// needs is how many denials begin a ban of a client that is remembered, or not.
func (p *Policy) needs(remembered bool) int {
	if remembered {
		return (p.After-1)/repeat + 1
	}
	return p.After
}
