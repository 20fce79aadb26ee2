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
	NeedsBan  Missing = "a [`ban`](bans.md) blocks instead, each time for longer"
	OnPurpose Missing = "on purpose"
)

// Behaviours are those of NERD, prorate and pecorino: each has a vector, or is in
// docs/migrate.md with what fastlimit does instead. Bugs are listed there, and lifetimes
// and names of keys nowhere.
func Behaviours() []Behaviour {
	return []Behaviour{
		{Source: "prorate", Does: "a throttle admits the limit at once, and then at the rate", Vectors: []string{"prorate throttle", "prorate all of the limit"}},
		{Source: "prorate", Does: "0 tokens ask, negative ones give back", Vectors: []string{"prorate negative amounts"}},
		{Source: "prorate", Does: "fractions of a token", Vectors: []string{"prorate half a token, milli"}},
		{Source: "prorate", Does: "more than the limit never fits", Vectors: []string{"prorate more than the limit"}},
		{Source: "prorate", Does: "a denial leaks and takes nothing", Vectors: []string{"prorate a denial takes nothing, milli"}},
		{Source: "prorate", Does: "`fillup` fills to the brim and is never refused", Vectors: []string{"prorate bucket, milli"}},
		{
			Source: "prorate", Does: "`block_for`: a denial blocks the client for so long, whatever leaks meanwhile", Missing: NeedsBan,
			Vectors: []string{"prorate throttle, without its block"}, Instead: "a denied call changes nothing, and the next one is admitted as soon as it fits",
		},
		{
			Source: "prorate", Does: "`retry_in_seconds` is what is left of the block", Missing: NeedsBan,
			Vectors: []string{"prorate throttle, without its block"}, Instead: "`RetryAfter` is when the call fits",
		},
		{
			Source: "prorate", Does: "while blocked nothing leaks and nothing is given back", Missing: NeedsBan,
			Vectors: []string{"prorate a denial takes nothing, milli"}, Instead: "time and refunds count after a denial as before it",
		},

		{Source: "pecorino", Does: "`fillup_conditionally` takes all or nothing; exactly full is accepted", Vectors: []string{"pecorino conditional, milli", "pecorino conditional, exactly full, milli"}},
		{Source: "pecorino", Does: "`over_time` instead of a rate", Vectors: []string{"pecorino conditional, over time"}},
		{Source: "pecorino", Does: "`fillup` fills to the brim", Vectors: []string{"pecorino fillup, milli", "pecorino fillup and fillup_conditionally of one bucket, milli"}},
		{Source: "pecorino", Does: "`able_to_accept?` asks", Vectors: []string{"pecorino able to accept, milli"}},
		{Source: "pecorino", Does: "a throttle admits its capacity, and denies the next", Vectors: []string{"pecorino throttle"}},
		{
			Source: "pecorino", Does: "`Throttle` blocks after a denial, by default while a full bucket drains", Missing: NeedsBan,
			Vectors: []string{"pecorino throttle, without its block"}, Instead: "a denied call changes nothing, and the next one is admitted as soon as it fits",
		},
		{
			Source: "pecorino", Does: "`Throttle#able_to_accept?` is false while blocked, even if the bucket has room", Missing: NeedsBan,
			Vectors: []string{"pecorino throttle, without its block"}, Instead: "`Rule.Peek` tells of the bucket",
		},
		{
			Source: "pecorino", Does: "`Throttled#retry_after` is what is left of the block, in whole seconds", Missing: NeedsBan,
			Vectors: []string{"pecorino throttle, without its block"}, Instead: "`RetryAfter` is when the call fits; `Retry-After` rounds it up to seconds",
		},
		{
			Source: "pecorino", Does: "`CachedThrottle` remembers a block in the process", Missing: NeedsBan,
			Vectors: []string{"pecorino throttle, without its block"}, Instead: "each node's table remembers a denial until a call fits",
		},

		{Source: "NERD", Does: "tokens are the size at first, grow at the rate, and never exceed the size", Vectors: []string{"nerd fresh", "nerd never above the size"}},
		{Source: "NERD", Does: "who does not wait is denied when tokens are short, and takes none", Vectors: []string{"nerd six without waiting"}},
		{Source: "NERD", Does: "endpoints have costs", Vectors: []string{"nerd costs of endpoints"}},
		{Source: "NERD", Does: "one request may wait, at the end of which its tokens are there", Vectors: []string{"nerd waits, one at a time", "nerd waits for a dear call"}},
		{Source: "NERD", Does: "users have a size and a rate of their own, and others the default", Vectors: []string{"nerd a user's own limit", "nerd users of all kinds"}},
		{Source: "NERD", Does: "a rate of infinity is no limit", Vectors: []string{"nerd users of all kinds"}},
		{
			Source: "NERD", Does: "who finds another one waiting sleeps for a second and is denied", Missing: OnPurpose,
			Vectors: []string{"nerd waits, one at a time"}, Instead: "denied at once, with the time until its turn would be",
		},
		{
			Source: "NERD", Does: "who waits takes its tokens at once, so that all others are denied until the debt is paid", Missing: OnPurpose,
			Vectors: []string{"nerd waits for a dear call"}, Instead: "the tokens are taken when they are there: a caller of `Take`, who does not wait, may be faster; of those who wait nobody is",
		},
		{
			Source: "NERD", Does: "a cost above the size waits in debt for more than the size", Missing: OnPurpose,
			Vectors: []string{"nerd waits for all, and not for more"}, Instead: "denied at once: it never fits",
		},
	}
}
