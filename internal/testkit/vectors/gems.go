package vectors

import (
	"time"

	"github.com/fastlimit/fastlimit"
)

// The gems count in fractions, so a unit is a thousandth of theirs. A negative
// amount is a refund.

func call(at time.Duration, do Verb, n uint64, ok bool, level uint64) Call {
	return Call{At: at, Do: do, N: n, Allowed: ok, Level: level, Reset: unsaid, Full: unsaid}
}

func perSecond(n uint64) fastlimit.Rate { return fastlimit.Rate{N: n, Per: time.Second} }

// prorate reports levels rounded up to whole units.
func prorate() []Vector {
	return []Vector{
		{Name: "prorate throttle", Rate: perSecond(1), Burst: 2, Calls: []Call{
			call(0, Take, 0, true, 0), call(0, Take, 0, true, 0), call(0, Take, 1, true, 1), call(0, Take, 1, true, 2), call(0, Take, 1, false, 2),
		}},
		{Name: "prorate more than the limit", Rate: perSecond(1), Burst: 2, Calls: []Call{call(0, Take, 20, false, 0)}},
		{Name: "prorate all of the limit", Rate: perSecond(1), Burst: 2, Calls: []Call{call(0, Take, 2, true, 2)}},
		{Name: "prorate negative amounts", Rate: perSecond(1), Burst: 8, Calls: []Call{
			call(0, Take, 0, true, 0), call(0, Refund, 2, true, 0), call(0, Take, 1, true, 1),
		}},
		{Name: "prorate half a token, milli", Rate: perSecond(1000), Burst: 2000, Calls: []Call{call(0, Take, 500, true, 500)}},
		{Name: "prorate bucket, milli", Rate: perSecond(800), Burst: 2000, Calls: []Call{
			call(0, Fill, 5000, false, 2000).times(1250*time.Microsecond, 2500*ms),
			call(500*ms, Peek, 0, true, 1600), call(500*ms, Fill, 0, true, 1600),
			call(500*ms, Refund, 20_000, true, 0), call(500*ms, Peek, 2000, true, 0),
		}},
		// At the last but one it is blocked there, for 5 s after the denial.
		{Name: "prorate throttle, without its block", Rate: perSecond(1), Burst: 2, Calls: []Call{
			call(0, Take, 1, true, 1), call(0, Take, 1, true, 2), call(0, Take, 1, false, 2), call(0, Peek, 0, true, 2),
			call(1000*ms, Take, 1, true, 2), call(5000*ms, Take, 2, true, 2),
		}},
		{Name: "prorate a denial takes nothing, milli", Rate: perSecond(1000), Burst: 2000, Calls: []Call{
			call(0, Take, 2000, true, 2000), call(500*ms, Take, 1000, false, 1500), call(500*ms, Refund, 500, true, 1000), call(500*ms, Take, 1000, true, 2000),
		}},
	}
}

func pecorino() []Vector {
	return []Vector{
		{Name: "pecorino conditional, milli", Rate: perSecond(1000), Burst: 1000, Calls: []Call{
			call(0, Take, 1100, false, 0),
			call(0, Take, 300, true, 300), call(0, Take, 300, true, 600), call(0, Take, 300, true, 900), call(0, Take, 300, false, 900),
			call(200*ms, Take, 300, true, 1000),
			call(200*ms, Refund, 2000, true, 0), call(200*ms, Take, 1000, true, 1000),
		}},
		{Name: "pecorino fillup, milli", Rate: perSecond(2000), Burst: 1000, Calls: []Call{
			call(0, Fill, 300, true, 300), call(0, Fill, 350, true, 650), call(0, Fill, 700, false, 1000),
			call(250*ms, Peek, 0, true, 500), call(500*ms, Peek, 0, true, 0),
		}},
		{Name: "pecorino able to accept, milli", Rate: perSecond(1000), Burst: 1000, Calls: []Call{
			call(0, Peek, 1000, true, 0), call(0, Peek, 1001, false, 0), call(0, Take, 400, true, 400),
			call(0, Peek, 600, true, 400), call(0, Peek, 601, false, 400),
		}},
		{Name: "pecorino throttle", Rate: fastlimit.Rate{N: 3, Per: time.Minute}, Burst: 3, Calls: []Call{
			call(0, Take, 1, true, 1), call(0, Take, 1, true, 2), call(0, Take, 1, true, 3), call(0, Take, 1, false, 3),
		}},
		{Name: "pecorino conditional, exactly full, milli", Rate: perSecond(1000), Burst: 1000, Calls: []Call{
			call(0, Take, 1000, true, 1000), call(0, Take, 1, false, 1000), call(0, Take, 0, true, 1000), call(ms, Take, 1, true, 1000),
		}},
		{Name: "pecorino conditional, over time", Rate: fastlimit.Rate{N: 20, Per: 10 * time.Second}, Burst: 20, Calls: []Call{
			call(0, Take, 20, true, 20), call(0, Take, 1, false, 20), call(500*ms, Take, 1, true, 20), call(10_500*ms, Peek, 20, true, 0),
		}},
		{Name: "pecorino fillup and fillup_conditionally of one bucket, milli", Rate: perSecond(1000), Burst: 1000, Calls: []Call{
			call(0, Fill, 900, true, 900), call(0, Take, 200, false, 900), call(0, Fill, 200, false, 1000), call(0, Peek, 1, false, 1000),
			call(100*ms, Take, 101, false, 900), call(100*ms, Take, 100, true, 1000),
		}},
		// It is blocked there for the minute in which the bucket drains.
		{Name: "pecorino throttle, without its block", Rate: fastlimit.Rate{N: 3, Per: time.Minute}, Burst: 3, Calls: []Call{
			call(0, Take, 3, true, 3), call(0, Take, 1, false, 3).times(20_000*ms, 60_000*ms),
			call(20_000*ms, Peek, 1, true, 2), call(20_000*ms, Take, 1, true, 3), call(20_000*ms, Take, 1, false, 3), call(80_000*ms, Take, 3, true, 3),
		}},
	}
}
