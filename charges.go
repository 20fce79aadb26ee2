package fastlimit

import (
	"context"
	"unsafe"

	"github.com/fastlimit/fastlimit/internal/engine"
)

// Charge asks for units of one rule for one client.
type Charge struct {
	Rule *Rule
	Key  Key    // made by Rule
	Cost uint64 // in units; 0 asks and takes nothing
}

// engine.Charges reads a Charge as an engine.Charge, whose fields are the same but for the names
// of their types.
var (
	_ [0]struct{} = [unsafe.Sizeof(Charge{}) - unsafe.Sizeof(engine.Charge{})]struct{}{}
	_ [0]struct{} = [unsafe.Offsetof(Charge{}.Key) - unsafe.Offsetof(engine.Charge{}.Key)]struct{}{}
	_ [0]struct{} = [unsafe.Offsetof(Charge{}.Cost) - unsafe.Offsetof(engine.Charge{}.Cost)]struct{}{}
)

// TakeAll decides on one request that several rules apply to: it is admitted
// if every enforced rule admits it. A request that one rule denies is not
// charged to the buckets of the others. Shadow rules count what they would
// have done and change nothing. It does not allocate. At most 256
// charges, each of another rule of this limiter.
//
// It returns the decision and the index of the charge that it is by: of a
// denial the one with the longest RetryAfter, a ban before all others, of an admission the last
// enforced one, -1 if there is none.
func (l *Limiter) TakeAll(ctx context.Context, charges []Charge) (d Decision, by int) {
	return l.engine().TakeAll(ctx, engine.Charges(charges))
}

// WaitAll is [Limiter.TakeAll] for a request that may wait. Each rule decides on it as if it
// were the only one: those that it fits charge it when it comes, and if all that deny it have a
// [RuleConfig].MaxWait it waits in the lines of these, in all at once, and is charged by
// each when it is the first there and its units fit. It is admitted when all have charged it. If one
// denies it, at once or when its time there is over, the others give back what they have
// charged, as by [Rule.Refund]. So no rule denies it for the time that it waits in the line of
// another, which may be full of others.
//
// A request that is denied at once has charged nothing but what shared stores and the buckets
// of rules before the one that denies it have charged and given back.
func (l *Limiter) WaitAll(ctx context.Context, charges []Charge) (d Decision, by int) {
	return l.engine().WaitAll(ctx, engine.Charges(charges))
}
