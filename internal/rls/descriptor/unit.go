package descriptor

import "time"

// Unit is how long the window lasts in which requests are counted. Its numbers are those
// of Envoy's API (RateLimitResponse.RateLimit.Unit); the zero value is none.
type Unit uint8

// The units. A month has 30 days, a year 365.
const (
	Second Unit = iota + 1
	Minute
	Hour
	Day
	Month
	Year
	Week
)

const day = 24 * time.Hour

// units has their names and how long they are, by number.
var units = [...]struct {
	name string
	long time.Duration
}{
	Second: {"second", time.Second},
	Minute: {"minute", time.Minute},
	Hour:   {"hour", time.Hour},
	Day:    {"day", day},
	Month:  {"month", 30 * day},
	Year:   {"year", 365 * day},
	Week:   {"week", 7 * day},
}

// Valid reports whether u is a unit.
func (u Unit) Valid() bool { return u >= Second && int(u) < len(units) }

// Duration returns how long the unit is, 0 for none.
func (u Unit) Duration() time.Duration {
	if !u.Valid() {
		return 0
	}
	return units[u].long
}

// String returns the unit as files write it, "unknown" for none.
func (u Unit) String() string {
	if !u.Valid() {
		return "unknown"
	}
	return units[u].name
}
