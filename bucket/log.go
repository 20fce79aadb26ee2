package bucket

import (
	"fmt"
	"time"

	"github.com/fastlimit/fastlimit/internal/field"
)

const (
	// MaxLog is the longest log: what is in memory for a client at least.
	MaxLog = 1 << 20
	// MaxPortableLog is the longest log in a shared store, which reads and writes it
	// whole.
	MaxPortableLog = 1 << 12
)

// NewSlidingLog returns the shape of n units in any period. It fails, with a field
// error of Rate, on a period that is not 1 s to 366 d in whole µs, and on n of 0 or
// above [MaxLog].
func NewSlidingLog(n uint64, per time.Duration) (Shape, error) {
	s, err := NewWindow(n, per)
	if err != nil {
		return Shape{}, err
	}
	if n > MaxLog {
		return Shape{}, &field.Error{
			Package: "fastlimit/bucket", Field: "Rate", Problem: fmt.Sprintf("a log of %d units for each client is too long", n),
			Fix: fmt.Sprintf("want at most %d, or a sliding window", MaxLog),
		}
	}
	s.algorithm, s.perMicro = SlidingLog, 1
	return s, nil
}
