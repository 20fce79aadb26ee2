package sketch

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// benchDigests are more keys than any cache of digests, so that cells are
// found in a random order.
func benchDigests() []Digest {
	rng := rand.New(rand.NewPCG(1, 1))
	ds := make([]Digest, 1<<16)
	for i := range ds {
		ds[i] = randomDigest(rng)
	}
	return ds
}

// BenchmarkAdd: in cache and far beyond it, on idle and on busy cells.
func BenchmarkAdd(b *testing.B) {
	ds := benchDigests()
	for _, size := range []struct {
		name   string
		blocks int
	}{{"32KiB", 1 << 9}, {"64MiB", 1 << 20}} {
		s := newLeaky(b, size.blocks, noLimit)
		now := uint64(1)
		for _, cells := range []struct {
			name string
			tick uint64 // between two hits
		}{{"idle", 1 << 20}, {"busy", 0}} {
			b.Run(size.name+"/"+cells.name, func(b *testing.B) {
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					now += cells.tick
					s.Add(ds[i&(len(ds)-1)], now, 10)
					i++
				}
			})
		}
	}
}

func BenchmarkLevel(b *testing.B) {
	s, ds := newLeaky(b, 1<<9, noLimit), benchDigests()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		s.Level(ds[i&(len(ds)-1)], 1)
		i++
	}
}

// BenchmarkAddHot is one key on all cores: three contended words.
func BenchmarkAddHot(b *testing.B) {
	s := newLeaky(b, 1<<9, noLimit)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			s.Add(Digest{Pos: 42}, 1, 1)
		}
	})
}

func BenchmarkMark(b *testing.B) {
	ds := benchDigests()
	f := newBlooms(b, 1<<16)
	b.Run("known", func(b *testing.B) {
		for _, d := range ds {
			f.Mark(0, d)
		}
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			f.Mark(0, ds[i&(len(ds)-1)])
			i++
		}
	})
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		d := Digest{}
		for b.Loop() {
			d.ID += 0x9e3779b97f4a7c15
			if f.Mark(1, d); d.ID>>48 == 0 {
				f.Reset(1)
			}
		}
	})
}

// BenchmarkReset wipes 8 MiB of used words.
func BenchmarkReset(b *testing.B) {
	f := newBlooms(b, 1<<20)
	b.SetBytes(8 << 20)
	for b.Loop() {
		b.StopTimer()
		for i := range f.words {
			f.words[i] = 1
		}
		b.StartTimer()
		f.Reset(0)
	}
}

func BenchmarkDigest(b *testing.B) {
	h := newHasher(b, testSecret(), "bench")
	key := make([]byte, 64)
	var d Digest
	for _, bb := range []struct {
		name string
		op   func(i uint64)
	}{
		{"library", func(i uint64) { // the same hash as Word4's
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], i^h.mask4)
			d.ID = xxhash.Sum64(b[:])
		}},
		{"Word4", func(i uint64) { d = h.Word4(uint32(i)) }},
		{"Word6", func(i uint64) { d = h.Word6(i) }},
		{"Pair6", func(i uint64) { d = h.Pair6(i, i) }},
		{"Bytes16", func(uint64) { d = h.Bytes(key[:16]) }},
		{"Bytes64", func(uint64) { d = h.Bytes(key) }},
		{"Append16", func(uint64) { d = h.Append(d, key[:16]) }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			i := uint64(0)
			for b.Loop() {
				bb.op(i)
				i++
			}
		})
	}
}
