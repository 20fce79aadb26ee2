package fastlimit_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
)

func v4(i uint32) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], i)
	return netip.AddrFrom4(b)
}

func BenchmarkQuick(b *testing.B) {
	lim, err := fastlimit.New(fastlimit.Config{Rules: []fastlimit.RuleConfig{{Name: "x", Rate: fastlimit.Rate{N: 100, Per: time.Second}, Burst: 200}}})
	if err != nil {
		b.Fatal(err)
	}
	r, _ := lim.Rule("x")
	z := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, 1<<20-1)
	addrs := make([]netip.Addr, 1<<20)
	for i := range addrs {
		addrs[i] = v4(uint32(z.Uint64()))
	}
	ctx := b.Context()
	now := time.Duration(0)
	b.Run("zipf", func(b *testing.B) {
		i := 0
		for b.Loop() {
			now += time.Microsecond
			r.TakeAt(ctx, r.AddrKey(addrs[i&(1<<20-1)]), 1, now)
			i++
		}
	})
	b.Run("distinct", func(b *testing.B) {
		i := uint32(0)
		for b.Loop() {
			now += time.Microsecond
			r.TakeAt(ctx, r.AddrKey(v4(i*2654435761)), 1, now)
			i++
		}
	})
	b.Run("hot", func(b *testing.B) {
		for i := 0; i < 1000; i++ {
			r.TakeAt(ctx, r.AddrKey(v4(1<<30)), 1, now)
		}
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				r.TakeAt(ctx, r.AddrKey(v4(1<<30)), 1, now)
			}
		})
	})
	b.Run("key", func(b *testing.B) {
		for b.Loop() {
			r.AddrKey(v4(1 << 30))
		}
	})
	b.Run("clock", func(b *testing.B) {
		for b.Loop() {
			lim.Now()
		}
	})
}
