package denial

import "fmt"

// HeaderSet is a family of header fields that show clients their limit.
type HeaderSet uint8

// The header sets. Order matters: the configuration file has their names in this order.
const (
	RateLimit       HeaderSet = iota // RateLimit-Policy, RateLimit
	RateLimitLegacy                  // RateLimit-Limit, -Remaining, -Reset
	XRateLimit                       // X-RateLimit-Remaining, -Clear, -Reset
	XRateLimitLimit                  // X-RateLimit-Limit, -Remaining, -Retry-After
	NoHeaders                        // only what every denial has; not combined with others
)

var setNames = [...]string{"ratelimit", "ratelimit-legacy", "x-ratelimit", "x-ratelimit-limit", "none"}

// String is the name of the set in configuration.
func (s HeaderSet) String() string {
	if int(s) >= len(setNames) {
		return fmt.Sprintf("header set %d", uint8(s))
	}
	return setNames[s]
}

// CheckHeaders reports what is wrong with a list of sets, and at which index. problem is "" if it is valid.
func CheckHeaders(sets []HeaderSet) (at int, problem, fix string) {
	seen := mask(0)
	for i, s := range sets {
		switch {
		case s > NoHeaders:
			return i, s.String() + " is unknown", "want ratelimit, ratelimit-legacy, x-ratelimit, x-ratelimit-limit or none"
		case seen.has(s):
			return i, s.String() + " is listed twice", "remove it"
		case s == NoHeaders && len(sets) > 1:
			return i, "none is listed with others", "write none alone, or remove it"
		}
		seen |= 1 << s
	}
	return 0, "", ""
}

// mask is several header sets.
type mask uint8

// WithDefault returns the list, or the default instead of an empty one: what denials had before there was a
// choice. Do not change the result.
func WithDefault(sets []HeaderSet) []HeaderSet {
	if len(sets) == 0 {
		return []HeaderSet{RateLimit, XRateLimit}
	}
	return sets
}

// maskOf returns the sets of a list, or the default for an empty one.
func maskOf(sets []HeaderSet) (m mask) {
	for _, s := range WithDefault(sets) {
		m |= 1 << s
	}
	return m
}

func (m mask) has(s HeaderSet) bool { return m&(1<<s) != 0 }

// Name is the name of a header field, as net/http and as fasthttp take it.
type Name struct {
	String string
	Bytes  []byte // do not change
}

func nameOf(s string) Name { return Name{s, []byte(s)} }

// Header names as their documents spell them. Keep that spelling on the wire where the server allows it.
var (
	nameCacheControl    = nameOf(CacheControl)
	nameRetryAfter      = nameOf("Retry-After")
	nameRateLimitPolicy = nameOf("RateLimit-Policy")
	nameRateLimit       = nameOf("RateLimit")
	nameLegacyLimit     = nameOf("RateLimit-Limit")
	nameLegacyRemaining = nameOf("RateLimit-Remaining")
	nameLegacyReset     = nameOf("RateLimit-Reset")
	nameLimit           = nameOf("X-RateLimit-Limit")
	nameRemaining       = nameOf("X-RateLimit-Remaining")
	nameReset           = nameOf("X-RateLimit-Reset")
	nameClear           = nameOf("X-RateLimit-Clear")
	nameXRetryAfter     = nameOf("X-RateLimit-Retry-After")
)

// constants are the parts of fields that depend only on the rule.
type constants struct {
	policy string // value of RateLimit-Policy
	item   string // the rule's name as the start of a RateLimit item
	limit  string // the burst
}

// denied are the fields of a denial.
func (c *constants) denied(sets mask) (f fields) {
	if sets.has(RateLimit) {
		f.add(nameRateLimitPolicy, piece{text: c.policy})
	}
	f.add(nameRetryAfter, piece{value: retryWhole})
	if sets.has(XRateLimit) {
		f.add(nameReset, piece{value: retryMillis})
	}
	f.add(nameCacheControl, piece{text: NoStore})
	if sets.has(RateLimit) {
		f.add(nameRateLimit, piece{c.item + ";r=", leftInteger}, piece{";t=", retryWhole})
	}
	if sets.has(RateLimitLegacy) {
		f.add(nameLegacyLimit, piece{text: c.limit})
		f.add(nameLegacyRemaining, piece{value: left})
		f.add(nameLegacyReset, piece{value: retryWhole})
	}
	c.addShared(&f, sets)
	if sets.has(XRateLimitLimit) {
		f.add(nameXRetryAfter, piece{value: retryWhole})
	}
	return f
}

// known returns the fields of an admission whose exact bucket is known.
func (c *constants) known(sets mask) (f fields) {
	if sets.has(RateLimit) {
		f.add(nameRateLimitPolicy, piece{text: c.policy})
		f.add(nameRateLimit, piece{c.item + ";r=", leftInteger})
	}
	if sets.has(RateLimitLegacy) {
		f.add(nameLegacyLimit, piece{text: c.limit})
		f.add(nameLegacyRemaining, piece{value: left})
		f.add(nameLegacyReset, piece{value: clearWhole})
	}
	c.addShared(&f, sets)
	return f
}

// addShared adds what denials and admissions share. Two sets have X-RateLimit-Remaining, which is sent once.
func (c *constants) addShared(f *fields, sets mask) {
	if sets.has(XRateLimitLimit) {
		f.add(nameLimit, piece{text: c.limit})
	}
	if sets.has(XRateLimit) || sets.has(XRateLimitLimit) {
		f.add(nameRemaining, piece{value: left})
	}
	if sets.has(XRateLimit) {
		f.add(nameClear, piece{value: clearMillis})
	}
}

// unknown returns the fields of an admission whose client has no exact bucket. The legacy fields say nothing
// alone: a client needs all three.
func (c *constants) unknown(sets mask) (f fields) {
	if sets.has(RateLimit) {
		f.add(nameRateLimitPolicy, piece{text: c.policy})
	}
	if sets.has(XRateLimitLimit) {
		f.add(nameLimit, piece{text: c.limit})
	}
	return f
}
