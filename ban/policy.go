package ban

import (
	"errors"
	"fmt"
	"time"

	"github.com/fastlimit/fastlimit/internal/field"
)

// Policy says which clients are banned, and for how long. The zero value bans nobody.
type Policy struct {
	// After is how many denials within Within begin a ban, 1 to MaxAfter. The ban is the
	// answer to the last of them. A client that is still remembered for a ban needs an
	// eighth of them, rounded up.
	After int

	// Within is the time within which denials count, MinWithin to MaxWithin. 0 means
	// DefaultWithin.
	Within time.Duration

	// For is how long the first ban lasts, at least MinFor.
	For time.Duration

	// Max is the longest ban, at most MaxFor: each further ban lasts twice as long as the
	// one before it. 0 means For.
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

	// remembered is the number of its lengths for which a ban is remembered after its end
	// before the length is halved. A client needs only After/repeat denials while it is
	// remembered.
	remembered, repeat = 10, 8
)

// Enabled reports whether the policy bans any clients.
func (p *Policy) Enabled() bool { return p.After > 0 }

// WithDefaults returns the policy with its defaults filled in. The error joins everything
// that is wrong with it, each as a field named Ban.After or the like, without package and
// rule.
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

// Memory returns a bound on how long a client is remembered after the end of a ban.
func (p *Policy) Memory() time.Duration { return 2 * remembered * p.Max }

// fade returns the length that a ban counts with, since after its end, or 0 if it is
// forgotten. The length is halved after ten lengths, again after ten of what remains, and
// so on.
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

// next returns the length of the ban after one that counts with length, 0 if there was
// none.
func (p *Policy) next(length time.Duration) time.Duration {
	if length == 0 {
		return p.For
	}
	return min(2*length, p.Max)
}

// needs returns how many denials begin a ban of a client, depending on whether it is
// remembered.
func (p *Policy) needs(remembered bool) int {
	if remembered {
		return (p.After-1)/repeat + 1
	}
	return p.After
}
