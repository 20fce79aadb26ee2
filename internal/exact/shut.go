package exact

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// shut remembers until when not one unit of a client fits by what a store has answered,
// on the limiter's clock. The wall time of windows leads the store's clock, so that a
// unit of a sliding window seems to fit a little sooner than it does. That comes many
// times in each period, and without this a flooding client would be asked about all
// the time in between: with a lead of 5 ms half of the time at 100/s.
//
// It holds what came last for each of its places, so that a client may be forgotten,
// and asked about. It is safe for concurrent use. nil knows of nobody.
type shut [1 << 11]struct{ tag, until atomic.Uint64 } // tag is ID xor until, as in bucket.Table

func (s *shut) put(d sketch.Digest, until time.Duration) {
	e := &s[d.Pos>>20%uint64(len(s))]
	e.until.Store(uint64(until))
	e.tag.Store(d.ID ^ uint64(until))
}

var _ [0]struct{} = [unsafe.Sizeof(shut{}) - limit.ShutBytes]struct{}{} // it is planned for

// is reports whether it knows that nothing of d fits at now.
func (s *shut) is(d sketch.Digest, now time.Duration) bool {
	if s == nil {
		return false
	}
	e := &s[d.Pos>>20%uint64(len(s))]
	until := e.until.Load()
	return e.tag.Load() == d.ID^until && until > uint64(now)
}

// clear forgets d, to which units were given back.
func (s *shut) clear(d sketch.Digest) {
	if s != nil {
		s.put(d, 0)
	}
}
