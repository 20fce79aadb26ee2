package bucket_test

import (
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"pgregory.net/rapid"
)

// A bucket in thousandths is the same bucket: T, B·T and a thousandth of T are the same
// times, exactly, and nothing but the scale of costs is another.
func TestInThousandths(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		per := rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour, 7 * time.Second, 1001 * time.Microsecond, 13 * time.Microsecond}).Draw(t, "per")
		s, err := bucket.NewShape(rapid.Uint64Range(1, 70_000).Draw(t, "n"), per, rapid.Uint64Range(1, 1<<40).Draw(t, "burst"))
		if err != nil {
			return // a limit that no bucket can have
		}
		m, err := s.InThousandths()
		if err != nil {
			if fits := s.PerMicro()*1000 <= 1<<16 && s.Limit() <= 1<<50; fits {
				t.Fatal(err)
			}
			return
		}
		micros := func(s *bucket.Shape, ticks uint64) *big.Rat {
			return new(big.Rat).SetFrac(new(big.Int).SetUint64(ticks), new(big.Int).SetUint64(s.PerMicro()))
		}
		n := rapid.Uint64Range(0, m.MaxCost()).Draw(t, "cost")
		part := new(big.Rat).Mul(micros(&s, s.Unit()), new(big.Rat).SetFrac(new(big.Int).SetUint64(n), big.NewInt(1000)))
		if micros(&m, m.Unit()).Cmp(micros(&s, s.Unit())) != 0 || micros(&m, m.Limit()).Cmp(micros(&s, s.Limit())) != 0 || micros(&m, m.Cost(n)).Cmp(part) != 0 {
			t.Fatalf("%+v is not %+v", m, s)
		}
		if m.Burst() != s.Burst() || m.MaxCost() != 1000*s.Burst() || m.CostScale() != 1000 || m.StoredUnit() != m.Unit() || m.Part()*1000 != m.Unit() {
			t.Fatalf("%+v", m)
		}
		if m.Fits(0, 0, m.Cost(m.MaxCost()+1)) || !m.Fits(0, 0, m.Cost(m.MaxCost())) {
			t.Fatal("more than the burst fits, or less")
		}
		if tat := m.Cost(n); m.RemainingCost(tat, 0) < m.MaxCost()-n || m.Remaining(tat, 0) != m.RemainingCost(tat, 0)/1000 {
			t.Fatalf("after %d thousandths %d are left, and %d units", n, m.RemainingCost(tat, 0), m.Remaining(tat, 0))
		}
	})
	window, _ := bucket.NewWindow(10, time.Minute)
	if _, err := window.InThousandths(); !errors.Is(err, bucket.ErrInexact) {
		t.Errorf("of a window: %v", err)
	}
}
