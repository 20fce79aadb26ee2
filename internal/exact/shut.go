package exact

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// shut remembers until when a store's answer says that not a single unit of a client fits, on the limiter's
// clock. The wall time of windows leads the store's clock, so a unit of a sliding window seems to fit a
// little too soon. That happens many times per period, and without this a flooding client would be asked
// about in all of that time: with a lead of 5 ms, half of the time at 100/s.
//
// A slot holds only the latest client, so one may be forgotten, and is then asked about. It is safe for
// concurrent use. A nil shut knows nobody.
type shut [1 << 11]struct{ tag, until atomic.Uint64 } // tag is ID xor until, as in bucket.Table

func (s *shut) put(d sketch.Digest, until time.Duration) {
	e := &s[d.Pos>>20%uint64(len(s))]
	e.until.Store(uint64(until))
	e.tag.Store(d.ID ^ uint64(until))
}

var _ [0]struct{} = [unsafe.Sizeof(shut{}) - limit.ShutBytes]struct{}{} // planned for

// is reports whether nothing of d is known to fit at now.
func (s *shut) is(d sketch.Digest, now time.Duration) bool {
	if s == nil {
		return false
	}
	e := &s[d.Pos>>20%uint64(len(s))]
	until := e.until.Load()
	return e.tag.Load() == d.ID^until && until > uint64(now)
}

// clear forgets d, which got a refund.
func (s *shut) clear(d sketch.Digest) {
	if s != nil {
		s.put(d, 0)
	}
}
