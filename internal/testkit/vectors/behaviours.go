package vectors

// Behaviour is something that a source does, by its documents and tests.
type Behaviour struct {
	Source, Does string

	// Vectors have it, or show what is done here instead.
	Vectors []string
	// Missing is why it is not here: NeedsBan or OnPurpose, or "" if it is.
	Missing Missing
	Instead string // what fastlimit does instead
}

// Missing is a reason, as docs/migrate.md words it.
type Missing string

// The reasons.
const (
	NeedsBan  Missing = "a [`ban`](bans.md) blocks instead, for longer each time up to `max`"
	OnPurpose Missing = "on purpose"
)

// Behaviours are those of NERD, prorate and pecorino: each has a vector, or is in
// docs/migrate.md with what fastlimit does instead. Bugs are listed there, and lifetimes
// and names of keys nowhere.
func Behaviours() []Behaviour {
	return []Behaviour{
		{Source: "prorate", Does: "a throttle admits the limit at once, and then at the rate", Vectors: []string{"prorate throttle", "prorate all of the limit"}},
		{Source: "prorate", Does: "0 tokens only query the bucket, and negative amounts are refunded", Vectors: []string{"prorate negative amounts"}},
		{Source: "prorate", Does: "fractions of a token", Vectors: []string{"prorate half a token, milli"}},
		{Source: "prorate", Does: "a request for more than the limit never fits", Vectors: []string{"prorate more than the limit"}},
		{Source: "prorate", Does: "a denied call takes nothing, and the bucket continues to leak", Vectors: []string{"prorate a denial takes nothing, milli"}},
		{Source: "prorate", Does: "`fillup` fills the bucket to the brim and is never refused", Vectors: []string{"prorate bucket, milli"}},
		{
			Source: "prorate", Does: "`block_for`: a denial blocks the client for that long, even if the bucket has room again", Missing: NeedsBan,
			Vectors: []string{"prorate throttle, without its block"}, Instead: "a denied call changes nothing, and the next one is admitted as soon as it fits",
		},
		{
			Source: "prorate", Does: "`retry_in_seconds` is the time until the block ends", Missing: NeedsBan,
			Vectors: []string{"prorate throttle, without its block"}, Instead: "`RetryAfter` is the time until the call fits",
		},
		{
			Source: "prorate", Does: "during a block nothing leaks and nothing can be refunded", Missing: NeedsBan,
			Vectors: []string{"prorate a denial takes nothing, milli"}, Instead: "a denial changes nothing: the bucket leaks and takes refunds as before",
		},

		{Source: "pecorino", Does: "`fillup_conditionally` takes all or nothing; exactly full is accepted", Vectors: []string{"pecorino conditional, milli", "pecorino conditional, exactly full, milli"}},
		{Source: "pecorino", Does: "`over_time` instead of a rate", Vectors: []string{"pecorino conditional, over time"}},
		{Source: "pecorino", Does: "`fillup` fills the bucket to the brim", Vectors: []string{"pecorino fillup, milli", "pecorino fillup and fillup_conditionally of one bucket, milli"}},
		{Source: "pecorino", Does: "`able_to_accept?` asks without taking anything", Vectors: []string{"pecorino able to accept, milli"}},
		{Source: "pecorino", Does: "a throttle admits its capacity, and denies the next request", Vectors: []string{"pecorino throttle"}},
		{
			Source: "pecorino", Does: "`Throttle` blocks a client after a denial, by default for as long as a full bucket takes to drain", Missing: NeedsBan,
			Vectors: []string{"pecorino throttle, without its block"}, Instead: "a denied call changes nothing, and the next one is admitted as soon as it fits",
		},
		{
			Source: "pecorino", Does: "`Throttle#able_to_accept?` is false during a block, even if the bucket has room", Missing: NeedsBan,
			Vectors: []string{"pecorino throttle, without its block"}, Instead: "`Rule.Peek` reports on the bucket",
		},
		{
			Source: "pecorino", Does: "`Throttled#retry_after` is the time until the block ends, in whole seconds", Missing: NeedsBan,
			Vectors: []string{"pecorino throttle, without its block"}, Instead: "`RetryAfter` is the time until the call fits; `Retry-After` rounds it up to seconds",
		},
		{
			Source: "pecorino", Does: "`CachedThrottle` remembers a block in the process", Missing: NeedsBan,
			Vectors: []string{"pecorino throttle, without its block"}, Instead: "each node's table remembers a denial until the next call fits",
		},

		{Source: "NERD", Does: "a new bucket is full, gains tokens at the rate, and never exceeds its size", Vectors: []string{"nerd fresh", "nerd never above the size"}},
		{Source: "NERD", Does: "a call that does not wait is denied if there are too few tokens, and takes none", Vectors: []string{"nerd six without waiting"}},
		{Source: "NERD", Does: "endpoints have costs", Vectors: []string{"nerd costs of endpoints"}},
		{Source: "NERD", Does: "one request may wait until there are enough tokens", Vectors: []string{"nerd waits, one at a time", "nerd waits for a dear call"}},
		{Source: "NERD", Does: "a user can have its own size and rate; all others have the default", Vectors: []string{"nerd a user's own limit", "nerd users of all kinds"}},
		{Source: "NERD", Does: "a rate of infinity means no limit", Vectors: []string{"nerd users of all kinds"}},
		{
			Source: "NERD", Does: "a request that finds another one waiting sleeps for a second and is denied", Missing: OnPurpose,
			Vectors: []string{"nerd waits, one at a time"}, Instead: "it is denied at once, with the time until it would be admitted",
		},
		{
			Source: "NERD", Does: "a request that waits takes its tokens at once, so all others are denied until the debt is paid", Missing: OnPurpose,
			Vectors: []string{"nerd waits for a dear call"}, Instead: "tokens are taken once they are available, so a call of `Take`, which does not wait, may get them first; another waiting request may not",
		},
		{
			Source: "NERD", Does: "a request that costs more than the size waits, in debt for more than the size", Missing: OnPurpose,
			Vectors: []string{"nerd waits for all, and not for more"}, Instead: "it is denied at once, because it never fits",
		},
	}
}
