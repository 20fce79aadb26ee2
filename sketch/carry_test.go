package sketch

import (
	"math/rand/v2"
	"testing"
)

// A sketch of any other size knows at least what the one before knew of each key, converted,
// and of keys with blocks of their own nothing more.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	for _, sizes := range [][2]int{{64, 64}, {64, 65}, {1, 9}, {9, 1}, {100, 333}, {333, 100}, {1000, 7}} {
		var old, next, merged Leaky
		for _, s := range []struct {
			s *Leaky
			n int
		}{{&old, sizes[0]}, {&next, sizes[1]}, {&merged, sizes[1]}} {
			if err := s.s.Init(s.n, 1<<40); err != nil {
				t.Fatal(err)
			}
		}
		var keys []Digest
		for range 50 {
			d := Digest{Pos: rng.Uint64()}
			keys = append(keys, d)
			old.Add(d, 1000, 1+rng.Uint64N(500))
		}
		triple := func(l uint64) uint64 { return 3 * l }
		next.TakeOver(&old, 1010, 7000, triple)
		merged.Merge(&old, 1010, 7000, triple)
		merged.Merge(&old, 1010, 7000, triple)
		for i, d := range keys {
			want := triple(old.Level(d, 1010))
			if got := next.Level(d, 7000); got < want || sizes[0] == sizes[1] && got > want {
				t.Fatalf("%v: key %d has level %d, want %d", sizes, i, got, want)
			}
			if got := merged.Level(d, 7000); got != next.Level(d, 7000) {
				t.Fatalf("%v: key %d has level %d merged, want %d", sizes, i, got, next.Level(d, 7000))
			}
		}
		// What is charged to both meanwhile is not lost.
		var late Leaky
		if err := late.Init(sizes[1], 1<<40); err != nil {
			t.Fatal(err)
		}
		late.Add(keys[0], 7000, 300)
		late.TakeOver(&old, 1010, 7000, triple)
		if want := 300 + triple(old.Level(keys[0], 1010)); late.Level(keys[0], 7000) < want {
			t.Errorf("%v: level %d, want %d", sizes, late.Level(keys[0], 7000), want)
		}
		late.Fill(7000, 1<<30)
		if got := late.Level(Digest{Pos: rng.Uint64()}, 7000); got != 1<<30 {
			t.Errorf("%v: filled to %d", sizes, got)
		}
	}
}
