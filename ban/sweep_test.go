package ban

import (
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// A sweep keeps what counts for requests that were read before it, up to Within.
func TestSweepIsForLateRequests(t *testing.T) {
	t.Parallel()
	p := Policy{After: 2, Within: 10 * time.Second, For: time.Minute, Max: time.Minute}
	table := newTable(4, p.Within)
	d := sketch.Digest{Pos: 1 << 40, ID: 5}
	const first = 100 * time.Second
	table.Deny(&p, d, first)
	table.Sweep(&p, first+14*time.Second, 0, 1)
	if !table.Deny(&p, d, first+5*time.Second) {
		t.Error("the denial before was swept")
	}
	table.Sweep(&p, first+time.Hour, 0, 1)
	if table.usedLocked(0)|table.usedLocked(1)|table.usedLocked(2)|table.usedLocked(3) != 0 {
		t.Error("an hour later it is still there")
	}
}
