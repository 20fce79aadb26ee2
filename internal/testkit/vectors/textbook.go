package vectors

import (
	"time"

	"github.com/fastlimit/fastlimit"
)

// The textbook's windows and logs: the examples that its descriptions compute (Cloudflare,
// "How we built rate limiting capable of scaling to millions of domains", 2017; Xu,
// "System Design Interview", chapter 4). Calls begin at midnight, where periods do.

func perMinute(n uint64) fastlimit.Rate { return fastlimit.Rate{N: n, Per: time.Minute} }

// queue is the leaking bucket as a queue: of requests that come at once the first is served
// at once, twenty are in the queue and leave it at the rate, and what comes then is dropped.
func queue() Vector {
	v := Vector{Name: "textbook leaking bucket, a queue of 20", Rate: perSecond(10), Burst: 1, MaxWait: 2 * time.Second, Places: 20}
	for i := range 21 {
		v.Calls = append(v.Calls, waitCall(0, 1, true, time.Duration(i)*100*ms))
	}
	v.Calls = append(v.Calls, waitCall(0, 1, false, 0), waitCall(1950*ms, 1, true, 2100*ms), waitCall(3000*ms, 1, true, 3000*ms))
	return v
}

func textbook() []Vector {
	second, us := 1000*ms, time.Microsecond
	return []Vector{
		queue(),
		// Twice the number passes around an edge.
		{Name: "textbook fixed window", Rate: perMinute(5), Algorithm: fastlimit.FixedWindow, Calls: []Call{
			call(59*second, Take, 5, true, 5), call(59*second, Take, 1, false, 5).times(second, second),
			call(60*second, Take, 5, true, 5), call(60*second, Take, 1, false, 5),
			call(120*second, Peek, 5, true, 0),
		}},
		// The one that is denied is noted there too, and counts; here it leaves nothing.
		{Name: "textbook sliding log", Rate: perMinute(2), Algorithm: fastlimit.SlidingLog, Calls: []Call{
			call(1*second, Take, 1, true, 1), call(30*second, Take, 1, true, 2), call(50*second, Take, 1, false, 2).times(11*second, 40*second),
			call(100*second, Take, 1, true, 1),
		}},
		{Name: "textbook sliding log, to the microsecond", Rate: perMinute(3), Algorithm: fastlimit.SlidingLog, Calls: []Call{
			call(59*second, Take, 3, true, 3), call(60*second, Take, 1, false, 3).times(59*second, 59*second),
			call(119*second-us, Take, 1, false, 3).times(us, us), call(119*second, Take, 1, true, 1), call(119*second, Take, 2, true, 3),
		}},
		{Name: "textbook sliding log, one by one", Rate: perMinute(3), Algorithm: fastlimit.SlidingLog, Calls: []Call{
			call(0, Take, 1, true, 1), call(20*second, Take, 1, true, 2), call(40*second, Take, 1, true, 3), call(59*second, Take, 2, false, 3),
			call(60*second, Take, 2, false, 2), call(60*second, Take, 1, true, 3), call(80*second, Take, 1, true, 3),
			call(80*second, Refund, 2, true, 1), call(80*second, Fill, 5, false, 3), call(100*second, Peek, 1, true, 2),
		}},
		// 42 · (60 - 15)/60 + 18 = 49.5 of 50: one more is too many.
		{Name: "textbook sliding window, 42 and 18", Rate: perMinute(50), Algorithm: fastlimit.SlidingWindow, Calls: []Call{
			call(10*second, Take, 42, true, 42), call(75*second, Take, 18, true, 50),
			// 31 of the 42 count after 16,370 of the 62,500 steps, 960 µs each. A node's time
			// may lead its store's by a thousandth of that since the last answer.
			call(75*second, Take, 1, false, 50).times(715_200*us, 105*second),
			call(75*second+714*ms, Take, 1, false, 50), call(75*second+715_200*us, Take, 1, true, 50),
		}},
		// 4 · 45/60 + 5 = 8 of 10 (Upstash, "Ratelimiting algorithms").
		{Name: "textbook sliding window, 4 and 5", Rate: perMinute(10), Algorithm: fastlimit.SlidingWindow, Calls: []Call{
			call(30*second, Take, 4, true, 4), call(75*second, Take, 5, true, 8), call(75*second, Peek, 2, true, 8), call(75*second, Peek, 3, false, 8),
		}},
		// 5 · 70 % + 3 = 6.5 of 7, which may be rounded up or down; here it is up.
		{Name: "textbook sliding window, 5 and 3", Rate: perMinute(7), Algorithm: fastlimit.SlidingWindow, Calls: []Call{
			call(0, Take, 5, true, 5), call(78*second, Take, 3, true, 7), call(78*second, Take, 1, false, 7),
			call(84*second, Take, 1, true, 7), call(120*second, Peek, 3, true, 4), call(240*second, Peek, 7, true, 0),
		}},
		{Name: "textbook sliding window around an edge", Rate: perMinute(10), Algorithm: fastlimit.SlidingWindow, Calls: []Call{
			call(60*second-us, Take, 10, true, 10), call(60*second, Take, 1, false, 10), call(66*second, Take, 1, true, 10), call(66*second, Take, 1, false, 10),
			call(90*second, Fill, 9, false, 10), call(90*second, Refund, 2, true, 8),
		}},
		// A client that goes on stays denied, as with the rate counters of HAProxy.
		{Name: "textbook sliding window, denials count", Rate: perMinute(20), Algorithm: fastlimit.SlidingWindow, CountDenied: true, Calls: []Call{
			call(0, Take, 20, true, 20), call(60*second, Take, 1, false, 20), call(90*second, Take, 10, false, 20), call(90*second, Take, 1, false, 20),
			call(114*second, Take, 10, false, 20), call(120*second, Take, 1, false, 20),
		}},
		{Name: "textbook sliding window, denials do not count", Rate: perMinute(20), Algorithm: fastlimit.SlidingWindow, Calls: []Call{
			call(0, Take, 20, true, 20), call(60*second, Take, 1, false, 20), call(90*second, Take, 10, true, 20), call(90*second, Take, 1, false, 20),
			call(114*second, Take, 8, true, 20), call(120*second, Take, 2, true, 20),
		}},
	}
}
