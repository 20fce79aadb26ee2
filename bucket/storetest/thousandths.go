package storetest

import (
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// Nodes with whole costs and nodes with costs in thousandths share a bucket: each scales
// the other's states, by T. At 2000/s a thousandth of T takes ticks of half a µs.
func testThousandths(t *testing.T, s *suite) {
	whole := shape(t, 2000, time.Second, 3) // T is 500 ticks
	fine := made(t)(whole.InThousandths())
	s.want(take(whole, "a", 1, 1), bucket.Reply{Granted: 1, Level: 500})
	s.want(take(fine, "a", 500, 9), bucket.Reply{Granted: 4, Level: 3000})
	s.want(take(fine, "a", 2, 1), bucket.Reply{Level: 3000})
	s.want(take(whole, "a", 1, 1), bucket.Reply{Level: 1500})
	s.clock.Advance(250 * time.Microsecond) // half a unit
	s.want(take(whole, "a", 1, 1), bucket.Reply{Level: 1250})
	s.want(take(fine, "a", 500, 2), bucket.Reply{Granted: 1, Level: 3000})
	s.want(take(fine, "b", 333, 100), bucket.Reply{Granted: 9, Level: 9 * 333})
	s.want(with(take(fine, "b", 500, 1), bucket.Refund), bucket.Reply{Level: 9*333 - 500})
	s.want(take(fine, "b", 3001, 1), bucket.Reply{Level: 9*333 - 500})
}
