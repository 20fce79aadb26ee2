package feed

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"

	"github.com/fastlimit/fastlimit/internal/field"
)

// Bounds of a [Config].
const (
	DefaultMax = 1 << 16
	MostBans   = 1 << 20 // the largest Max
)

// Config says which kernel is fed, and with how many bans.
type Config struct {
	// Writer is the kernel. Not needed in shadow.
	Writer Writer

	// Max is how many prefixes may be banned at once; any more are refused, and counted.
	// Default DefaultMax.
	Max int

	// Shadow keeps the bans, with their cap and their ends, but never calls the writer, and
	// Holds returns false.
	Shadow bool

	// Logger logs changes of state. Default [slog.Default].
	Logger *slog.Logger
}

// Validate returns everything that is wrong, joined, each as a FieldError of package
// fastlimit.
func (c Config) Validate() error {
	var errs []error
	when := func(wrong bool, name, problem, fix string) {
		if wrong {
			errs = append(errs, &field.Error{Package: "fastlimit/feed", Field: name, Problem: problem, Fix: fix})
		}
	}
	when(c.Writer == nil && !c.Shadow, "Writer", "none", "pass one, or set Shadow")
	when(c.Max < 0 || c.Max > MostBans, "Max", fmt.Sprintf("%d is out of range", c.Max), fmt.Sprintf("want 1 to %d, or 0 for %d", MostBans, DefaultMax))
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	c.Max = cmp.Or(c.Max, DefaultMax)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}
