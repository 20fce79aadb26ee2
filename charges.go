package fastlimit

import (
	"context"
	"unsafe"

	"github.com/fastlimit/fastlimit/internal/engine"
)

// Charge is a number of units to take from one rule for one client.
type Charge struct {
	Rule *Rule
	Key  Key    // made by Rule
	Cost uint64 // in units; 0 asks and takes nothing
}

// engine.Charges reinterprets a Charge as an engine.Charge. The fields are the same except
// for the names of their types.
var (
	_ [0]struct{} = [unsafe.Sizeof(Charge{}) - unsafe.Sizeof(engine.Charge{})]struct{}{}
	_ [0]struct{} = [unsafe.Offsetof(Charge{}.Key) - unsafe.Offsetof(engine.Charge{}.Key)]struct{}{}
	_ [0]struct{} = [unsafe.Offsetof(Charge{}.Cost) - unsafe.Offsetof(engine.Charge{}.Cost)]struct{}{}
)

// TakeAll decides on one request that several rules apply to. The request is admitted if
// every enforced rule admits it. If one rule denies it, the buckets of the others are not
// charged. Shadow rules count what they would have done and change nothing. TakeAll does
// not allocate. It takes at most 256 charges, each for a different rule of this limiter.
//
// It returns the decision and the index of the charge that decided. For a denial that is
// the charge with the longest RetryAfter among those that bans and tables deny, a ban
// before all others, or else the first that an exact bucket denies. For an admission it is
// the last enforced charge, or -1 if there is none.
func (l *Limiter) TakeAll(ctx context.Context, charges []Charge) (d Decision, by int) {
	return (*engine.Limiter)(l).TakeAll(ctx, engine.Charges(charges))
}

// WaitAll is [Limiter.TakeAll] for a request that may wait. Each rule decides on the
// request as if it were the only rule. Rules whose limit it fits charge it on arrival. If
// every rule that denies it has a [RuleConfig].MaxWait, it waits in all of their queues at
// once, and each of them charges it when it is first in that queue and its units fit. It is
// admitted when all have charged it. If one denies it, on arrival or when its time in that
// queue is over, the others give back what they have charged, as [Rule.Refund] does. So no
// rule denies a request for the time that it spends in another rule's queue, which may be
// full of other clients' requests.
//
// A request that is denied on arrival has charged nothing, except that shared stores, and
// the buckets of rules before the one that denies it, have charged it and given the units
// back.
func (l *Limiter) WaitAll(ctx context.Context, charges []Charge) (d Decision, by int) {
	return (*engine.Limiter)(l).WaitAll(ctx, engine.Charges(charges))
}
