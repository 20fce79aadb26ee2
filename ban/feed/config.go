package feed

import (
	"cmp"
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
	bad := field.Report{Package: "fastlimit/feed"}
	bad.When(c.Writer == nil && !c.Shadow, "Writer", "none", "pass one, or set Shadow")
	bad.When(c.Max < 0 || c.Max > MostBans, "Max", fmt.Sprintf("%d is out of range", c.Max), fmt.Sprintf("want 1 to %d, or 0 for %d", MostBans, DefaultMax))
	return bad.Err()
}

func (c Config) withDefaults() Config {
	c.Max = cmp.Or(c.Max, DefaultMax)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}
