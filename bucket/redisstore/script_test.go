package redisstore

import (
	"strconv"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/remote"
)

// Operations of one rule carry its numbers once: Redis takes longer to read a number than
// to compute with it.
func TestNumbersOfARuleAreSentOnce(t *testing.T) {
	t.Parallel()
	shape, other := mustShape(t, 10, time.Second, 5), mustShape(t, 20, time.Second, 5)
	var ops []*bucket.Op
	for i := range 10 {
		ops = append(ops, &bucket.Op{Kind: bucket.Take, Key: strconv.Itoa(i), Shape: shape, Cost: shape.Unit(), Count: 1})
	}
	ops[4].Kind = bucket.Refund // is not a number of the rule
	ops[9].Shape = other
	a := newArguments()
	const date, each, numbers = 8, 1 + 8, 5 * 8
	for range 2 { // a command needs none of those before it
		a.command(production, "", ops, new(remote.Dating), nil)
		if want := date + 10*each + 2*numbers; len(a.numbers) != want {
			t.Errorf("10 operations, 9 of them of one rule, have %d bytes, want %d", len(a.numbers), want)
		}
		a.reset()
	}
}
