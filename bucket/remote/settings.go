package remote

import (
	"cmp"
	"fmt"
	"time"

	"github.com/fastlimit/fastlimit/internal/field"
)

// Defaults and bounds of the settings that every driver has.
const (
	DefaultWorkers = 2
	DefaultQueue   = 2048
	ShortestRetry  = 100 * time.Millisecond
	LongestRetry   = 2 * time.Second

	MaxWorkers = 64
	MaxQueue   = 1 << 20

	maxDuration = time.Minute // of Timeout, RetryMin and RetryMax
)

// Validate returns what is wrong with the settings that every driver has, joined, each as a
// FieldError of package fastlimit. Defaults need not be filled in: they are 0.
func (c Config) Validate(driver string) error {
	bad := field.Report{Package: driver}
	count := func(name string, v, most int) {
		bad.When(v < 0 || v > most, name, fmt.Sprintf("%d is out of range", v), fmt.Sprintf("want 1 to %d, or 0 for the default", most))
	}
	count("Workers", c.Workers, MaxWorkers)
	count("Queue", c.Queue, MaxQueue)
	span := func(name string, d time.Duration) {
		bad.When(d < 0 || d > maxDuration, name, d.String()+" is out of range", "want 0 to 1m")
	}
	span("Timeout", c.Timeout)
	span("RetryMin", c.RetryMin)
	span("RetryMax", c.RetryMax)
	least, most := cmp.Or(c.RetryMin, ShortestRetry), cmp.Or(c.RetryMax, LongestRetry)
	bad.When(least > most && c.RetryMax != 0, "RetryMax", fmt.Sprintf("%v is below retry_min, which is %v", most, least), "raise it, or lower retry_min")
	bad.When(least > most && c.RetryMax == 0, "RetryMin", fmt.Sprintf("%v is above retry_max, which is %v", least, most), "lower it, or raise retry_max")
	return bad.Err()
}
