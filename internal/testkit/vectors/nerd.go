package vectors

import (
	"time"

	"github.com/fastlimit/fastlimit"
)

// waitCall is a call that waits and is admitted, or denied, at a time.
func waitCall(at time.Duration, n uint64, ok bool, in time.Duration) Call {
	return Call{At: at, Do: Wait, N: n, Allowed: ok, In: in, Reset: unsaid, Full: unsaid}
}

// by is a call of a client of some name.
func (c Call) by(who string) Call {
	c.Who = who
	return c
}

// NERD's token bucket is the mirror of ours: its tokens are the burst less the
// level.
func nerd() []Vector {
	v := Vector{Name: "nerd", Rate: fastlimit.Rate{N: 1, Per: 5 * time.Second}, Burst: 5}
	tokens := func(at time.Duration, n uint64) Call { return allow(at, 5-n) }
	fresh, row, full := v, v, v
	fresh.Name += " fresh"
	fresh.Calls = []Call{tokens(0, 4)}
	row.Name += " six without waiting"
	row.Calls = []Call{tokens(0, 4), tokens(0, 3), tokens(0, 2), tokens(0, 1), tokens(0, 0), block(0, 5), block(0, 5), allow(5*time.Second, 5)}
	full.Name += " never above the size"
	full.Calls = []Call{tokens(0, 4), tokens(time.Hour, 4)}
	costs := Vector{Name: "nerd costs of endpoints", Rate: perSecond(1), Burst: 60, Calls: []Call{
		call(0, Take, 54, true, 54), call(0, Take, 9, false, 54), call(0, Take, 1, true, 55), call(4000*ms, Take, 9, true, 60),
	}}
	return append([]Vector{fresh, row, full, costs}, append(nerdWaits(v), nerdUsers(row)...)...)
}

// Who finds too few tokens takes them all the same there, goes into debt and sleeps until
// it is paid; meanwhile all others are denied, after a second. Here there is a place in line for
// one, which takes its units when they fit; others are denied at once.
func nerdWaits(v Vector) []Vector {
	second := 1000 * ms
	v.Places, v.MaxWait = 1, 25*second // until all tokens are there
	six, dear, whole := v, v, v
	six.Name += " waits, one at a time"
	six.Calls = []Call{
		call(0, Take, 5, true, 5), waitCall(0, 1, true, 5*second), waitCall(0, 1, false, 0), call(0, Take, 1, false, 5), waitCall(second, 1, false, second),
		waitCall(7*second, 1, true, 10*second), waitCall(9*second, 1, false, 9*second), waitCall(16*second, 1, true, 16*second),
	}
	dear.Name += " waits for a dear call"
	dear.Calls = []Call{call(0, Take, 3, true, 3), waitCall(0, 4, true, 10*second), waitCall(second, 1, false, second), waitCall(11*second, 1, true, 15*second)}
	// It goes into debt there for more than the bucket holds. Here that never fits.
	whole.Name += " waits for all, and not for more"
	whole.Calls = []Call{call(0, Take, 1, true, 1), waitCall(0, 6, false, 0), waitCall(0, 5, true, 5*second)}
	return []Vector{six, dear, whole}
}

// Users have limits of their own in its database, infinity included.
func nerdUsers(row Vector) []Vector {
	second := 1000 * ms
	user := row
	user.Name = "nerd a user's own limit"
	user.Own = []Own{{Rate: row.Rate, Burst: row.Burst}}
	user.Rate, user.Burst = fastlimit.Rate{N: 100, Per: time.Hour}, 100
	users := Vector{
		Name: "nerd users of all kinds", Rate: row.Rate, Burst: row.Burst, MaxWait: 25 * second, Places: 1,
		Own: []Own{{Who: "alice", Rate: perSecond(1), Burst: 10}, {Who: "root", Unlimited: true}},
		Calls: []Call{
			call(0, Take, 10, true, 10).by("alice"), call(0, Take, 1, false, 10).by("alice"),
			call(0, Take, 5, true, 5).by("bob"), call(0, Take, 1, false, 5).by("bob"), call(0, Take, 5, true, 5),
			call(0, Take, 1000, true, 0).by("root"), call(0, Take, 1000, true, 0).by("root"), waitCall(0, 1000, true, 0).by("root"),
			call(second, Take, 1, true, 10).by("alice"), call(5*second, Take, 1, true, 5).by("bob"), call(6*second, Take, 5, true, 10).by("alice"),
			waitCall(6*second, 1, true, 7*second).by("alice"), waitCall(6*second, 1, true, 10*second).by("bob"), waitCall(6*second, 1, false, 6*second).by("bob"),
			waitCall(16*second, 1, true, 16*second).by("bob"),
		},
	}
	return []Vector{user, users}
}
