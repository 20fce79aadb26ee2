package bucket

import (
	"math/rand/v2"
	"testing"

	"github.com/fastlimit/fastlimit/sketch"
)

// benchDigests are random keys, found in a random order.
func benchDigests() []sketch.Digest {
	rng := rand.New(rand.NewPCG(1, 1))
	ds := make([]sketch.Digest, 1<<16)
	for i := range ds {
		ds[i] = sketch.Digest{Pos: rng.Uint64(), ID: rng.Uint64()}
	}
	return ds
}

// BenchmarkLookup: what every request pays. Absent clients are most; the table
// is 16 MiB, beyond the second-level cache.
func BenchmarkLookup(b *testing.B) {
	const now = 1 << 50
	ds := benchDigests()
	hot := ds[0]
	b.Run("absent", func(b *testing.B) {
		tb := newTable(b, 1<<18)
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			tb.Lookup(ds[i&(len(ds)-1)])
			i++
		}
	})
	full := newTable(b, 1<<18)
	for _, d := range ds {
		full.Take(d, now, full.shape.Unit())
	}
	b.Run("present", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			full.Lookup(ds[i&(len(ds)-1)])
			i++
		}
	})
	// The cost of shedding: one line that all cores share. Run it with -cpu 2.
	b.Run("hot", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if full.Lookup(hot) == 0 {
					b.Error("not found")
				}
			}
		})
	})
}

func BenchmarkTake(b *testing.B) {
	ds := benchDigests()
	b.Run("spread", func(b *testing.B) {
		tb, now := newTable(b, 1<<18), uint64(1<<50)
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			now += tb.shape.Unit() >> 10
			tb.Take(ds[i&(len(ds)-1)], now, tb.shape.Unit())
			i++
		}
	})
	b.Run("denied", func(b *testing.B) {
		tb := newTable(b, 1)
		b.ReportAllocs()
		for b.Loop() {
			tb.Take(ds[0], 1<<50, tb.shape.Cost(21))
		}
	})
	b.Run("hot", func(b *testing.B) {
		tb := newTable(b, 1)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			now := uint64(1 << 50)
			for pb.Next() {
				now += tb.shape.Unit()
				tb.Take(ds[0], now, tb.shape.Unit())
			}
		})
	})
}

// BenchmarkSweep is one part of eight of a table of 16 MiB of which a quarter
// of the sets is in use.
func BenchmarkSweep(b *testing.B) {
	const now = 1 << 50
	tb := newTable(b, 1<<18)
	for _, d := range benchDigests() {
		tb.Take(d, now, tb.shape.Unit())
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		tb.Sweep(now, i%8, 8)
		i++
	}
}

func BenchmarkShape(b *testing.B) {
	tb := newTable(b, 1)
	s, now := tb.shape, uint64(1<<50)
	full := now + s.Limit()
	b.Run("Fits", func(b *testing.B) {
		for b.Loop() {
			s.Fits(full, now, s.Cost(1))
		}
	})
	b.Run("denial", func(b *testing.B) { // all that a denied client is told
		for b.Loop() {
			s.Remaining(full, now)
			s.RetryAfter(full, now, s.Cost(1))
			s.TimeToEmpty(full, now)
		}
	})
}
