package sketch

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/racetest"
)

func newBlooms(tb testing.TB, words int) *Blooms {
	tb.Helper()
	f, err := NewBlooms(words)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// fill marks n random keys in generation g and returns them.
func fill(f *Blooms, g uint64, n int, rng *rand.Rand) []Digest {
	keys := make([]Digest, n)
	for i := range keys {
		keys[i] = randomDigest(rng)
		f.Mark(g, keys[i])
	}
	return keys
}

func TestBloomNoFalseNegatives(t *testing.T) {
	t.Parallel()
	for _, words := range []int{1, 3, 64, 1000, 1 << 14} {
		rng := rand.New(rand.NewPCG(1, uint64(words)))
		f := newBlooms(t, words)
		for g := range uint64(generations) {
			for i, d := range fill(f, g, 20*words, rng) {
				if !f.Has(g, d) {
					t.Fatalf("%d words, generation %d: key %d forgotten", words, g, i)
				}
				if f.Mark(g, d) {
					t.Fatalf("%d words, generation %d: key %d is new again", words, g, i)
				}
			}
		}
	}
}

// falsePositives is the exact rate of a generation of n words with the given
// number of keys. A word has j keys with Poisson probability of mean
// λ = keys/n. A query asks for u distinct bits; by inclusion and exclusion over
// them, with (1-i/64)^kj the chance that j keys miss i given bits,
//
//	P = Σ_u P(u) Σ_i (-1)^i C(u,i) exp(-λ·(1 - (1-i/64)^k))
func falsePositives(n, keys int) float64 {
	lambda := float64(keys) / float64(n)
	missed := func(i int) float64 { return math.Exp(-lambda * (1 - math.Pow(1-float64(i)/64, bitsPerKey))) }
	// distinct[u] is the chance of u distinct bits among k.
	distinct := [bitsPerKey + 1]float64{1}
	for range bitsPerKey {
		var next [bitsPerKey + 1]float64
		for u, p := range distinct {
			next[u] += p * float64(u) / 64
			if u < bitsPerKey {
				next[u+1] += p * float64(64-u) / 64
			}
		}
		distinct = next
	}
	rate := 0.0
	for u, p := range distinct {
		binomial, sign := 1.0, 1.0
		for i := range u + 1 {
			rate += p * sign * binomial * missed(i)
			binomial, sign = binomial*float64(u-i)/float64(i+1), -sign
		}
	}
	return rate
}

func measuredRate(f *Blooms, g uint64, probes int, rng *rand.Rand) float64 {
	hits := 0
	for range probes {
		if f.Has(g, randomDigest(rng)) {
			hits++
		}
	}
	return float64(hits) / float64(probes)
}

func TestBloomFalsePositives(t *testing.T) {
	t.Parallel()
	const probes = 100_000
	for _, words := range []int{1 << 10, 3 << 12, 1 << 14} {
		for _, perWord := range []float64{0.5, 2, 7, 15, 40} {
			t.Run(fmt.Sprintf("words=%d/keys=%v", words, perWord), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(uint64(words), uint64(perWord*8)))
				f := newBlooms(t, words)
				keys := int(perWord * float64(words))
				fill(f, 0, keys, rng)
				want := falsePositives(words, keys)
				got := measuredRate(f, 0, probes, rng)
				// The filter itself varies as well: one word's fill by about its
				// own size.
				slack := 5*math.Sqrt(want/probes) + 5*want/math.Sqrt(float64(words)) + 5.0/probes
				if math.Abs(got-want) > slack {
					t.Errorf("false positive rate %.5f, want %.5f ± %.5f", got, want, slack)
				}
				if f.Has(1, randomDigest(rng)) {
					t.Error("marks of one generation show in the other")
				}
			})
		}
	}
}

// TestBloomCapacity: at capacity less than a sixth of new keys are taken for known
// ones; a quarter more is too much, so capacity is not wasted either.
func TestBloomCapacity(t *testing.T) {
	t.Parallel()
	for _, words := range []int{1 << 12, 1 << 15} {
		rng := rand.New(rand.NewPCG(3, uint64(words)))
		f := newBlooms(t, words)
		fill(f, 1, BloomCapacity(words), rng)
		if got := measuredRate(f, 1, 200_000, rng); got >= 1.0/6 {
			t.Errorf("%d words at capacity: rate %.4f, want below 1/6", words, got)
		}
		fill(f, 1, BloomCapacity(words)/4, rng)
		if got := measuredRate(f, 1, 200_000, rng); got <= 1.0/6 {
			t.Errorf("%d words a quarter above capacity: rate %.4f, want above 1/6", words, got)
		}
	}
	if a, b := BloomCapacity(1000), BloomCapacity(2000); b < 2*a-1 || b > 2*a+2 {
		t.Errorf("capacity of 1000 words %d, of 2000 %d: want it in proportion", a, b)
	}
}

// TestMarkNew: a key is new if neither generation knew it; the current one
// knows it afterwards in any case.
func TestMarkNew(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(10, 10))
	for _, g := range []uint64{0, 1} {
		f := newBlooms(t, 64) // crowded: keys cover each other
		for i := range 2000 {
			d := randomDigest(rng)
			if i%3 == 0 {
				f.Mark(g+1, d)
			}
			want := !f.Has(0, d) && !f.Has(1, d)
			if got := f.MarkNew(g, d); got != want || !f.Has(g, d) {
				t.Fatalf("generation %d, key %d: new %v, want %v; known afterwards: %v", g, i, got, want, f.Has(g, d))
			}
		}
	}
}

// TestMarkHasOneWinner: of 64 simultaneous calls for a new key exactly one is
// told that it was the first.
func TestMarkHasOneWinner(t *testing.T) {
	t.Parallel()
	const keys = 4096
	rng := rand.New(rand.NewPCG(4, 4))
	f := newBlooms(t, 1<<16)
	digests := make([]Digest, 0, keys)
	// Only keys whose bits no other covers have a winner for certain.
	for solo := newBlooms(t, 1<<16); len(digests) < keys; {
		if d := randomDigest(rng); atomic.LoadUint64(solo.word(0, d)) == 0 {
			solo.Mark(0, d)
			digests = append(digests, d)
		}
	}
	var won [keys]atomic.Int32
	var turn atomic.Int64
	racetest.Together(func(int) {
		for {
			i := turn.Add(1) - 1
			if i >= keys*racetest.Goroutines {
				return
			}
			if k := i / racetest.Goroutines; f.MarkNew(0, digests[k]) {
				won[k].Add(1)
			}
		}
	})
	for k := range won {
		if n := won[k].Load(); n != 1 {
			t.Errorf("key %d: %d winners", k, n)
		}
	}
}

// TestMarkRace: two simultaneous marks of one key have one winner, and of two
// keys that share a word neither is lost.
func TestMarkRace(t *testing.T) { // not parallel: needs the cores
	const words, passes = 1 << 12, 64 // small enough to stay in cache
	f := newBlooms(t, words)
	at := func(k int, bits uint64) Digest { return Digest{ID: uint64(k)<<32/words<<32 | bits} }
	start := time.Now()
	for pass := 0; pass < passes && time.Since(start) < 2*time.Second; pass++ {
		f.Reset(0)
		f.Reset(1)
		var won [2][words]bool
		done := racetest.Lockstep(words, func(g, k int) {
			won[g][k] = f.MarkNew(0, at(k, 0xabcdef))
			f.Mark(1, at(k, uint64(g)))
		})
		for k := range done {
			if won[0][k] == won[1][k] {
				t.Fatalf("key %d: two callers, told %v and %v to be the first", k, won[0][k], won[1][k])
			}
			if !f.Has(1, at(k, 0)) || !f.Has(1, at(k, 1)) {
				t.Fatalf("word %d: one of two simultaneous marks is lost", k)
			}
		}
	}
}

// TestMarkInSharedWord: keys that share a word and race in it lose no bits.
func TestMarkInSharedWord(t *testing.T) {
	t.Parallel()
	const perGoroutine = 200
	f := newBlooms(t, 512)
	racetest.Together(func(g int) {
		rng := rand.New(rand.NewPCG(9, uint64(g)))
		for i, d := range fill(f, uint64(g), perGoroutine, rng) {
			if !f.Has(uint64(g), d) {
				t.Errorf("goroutine %d: mark %d is lost", g, i)
				return
			}
		}
	})
	for g := range uint64(racetest.Goroutines) {
		rng := rand.New(rand.NewPCG(9, g))
		for i := range perGoroutine {
			if !f.Has(g, randomDigest(rng)) {
				t.Fatalf("goroutine %d: mark %d was lost later", g, i)
			}
		}
	}
}

func TestBloomReset(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 5))
	for _, words := range []int{1, 2, 1000} {
		for _, g := range []uint64{0, 1, 6, 7} { // generations count on; the lowest bit decides
			f := newBlooms(t, words)
			gone := fill(f, g, 3*words, rng)
			kept := fill(f, g+1, 3*words, rng)
			f.Reset(g)
			for _, d := range kept {
				if !f.Has(g+1, d) {
					t.Fatalf("Reset(%d) of %d words touched the other generation", g, words)
				}
			}
			if slices.ContainsFunc(gone, func(d Digest) bool { return f.Has(g, d) }) {
				t.Fatalf("Reset(%d) of %d words left marks", g, words)
			}
			if n := f.Population(g, words); n != 0 {
				t.Errorf("population %d after Reset", n)
			}
		}
	}
}

func TestBloomPopulation(t *testing.T) {
	t.Parallel()
	const words = 1 << 14
	for _, share := range []float64{0.01, 0.1, 0.5, 1, 1.5} {
		keys := int(share * float64(BloomCapacity(words)))
		f := newBlooms(t, words)
		fill(f, 1, keys, rand.New(rand.NewPCG(6, uint64(keys))))
		for _, sample := range []int{1 << 12, 1 << 14, 1 << 20} {
			// Two bits of a key may coincide: 2.3 % of the bits are missing.
			want := float64(keys) * (1 - math.Pow(63.0/64, bitsPerKey)) * 64 / bitsPerKey
			sigma := want / math.Sqrt(want*float64(min(sample, words))/words)
			if got := float64(f.Population(1, sample)); math.Abs(got-want) > 5*sigma+1 || math.Abs(got-float64(keys)) > 0.03*float64(keys)+5*sigma {
				t.Errorf("%d keys, %d words sampled: population %.0f, want %.0f ± %.0f", keys, sample, got, want, 5*sigma)
			}
		}
		if got := f.Population(0, words); got != 0 {
			t.Errorf("population of the empty generation: %d", got)
		}
	}
}

func TestBloomPopulationSaturates(t *testing.T) {
	t.Parallel()
	f := newBlooms(t, 100)
	for i := range f.words {
		f.words[i] = math.MaxUint64
	}
	for _, sample := range []int{-1, 0, 1, 100, 1000} {
		if got := f.Population(0, sample); got != math.MaxUint32 {
			t.Errorf("population of a saturated filter over %d words: %d", sample, got)
		}
	}
	f.words[0] = math.MaxUint64 >> 1 // one bit is missing in all
	if got := f.Population(0, 100); got == math.MaxUint32 || got == 0 {
		t.Errorf("population one bit below saturation: %d", got)
	}
}

func TestNewBloomsRejects(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, -1, 1<<32 + 1} {
		if _, err := NewBlooms(n); err == nil {
			t.Errorf("NewBlooms(%d): no error", n)
		}
	}
	if f := newBlooms(t, 9); len(f.words) != 2*9 {
		t.Errorf("two generations of 9 words take %d", len(f.words))
	}
}

// TestBloomBits: word and bits of a key are uniform and independent.
func TestBloomBits(t *testing.T) {
	t.Parallel()
	const words, keys = 32, 100_000
	rng := rand.New(rand.NewPCG(8, 8))
	f := newBlooms(t, words)
	joint := make([]float64, words*64)
	bitCount := 0.0
	for range keys {
		d := randomDigest(rng)
		f.Mark(0, d)
		w := f.word(0, d)
		for m := *w; m != 0; m &= m - 1 {
			for i := range words {
				if w == &f.words[2*i] {
					joint[i*64+bits.TrailingZeros64(m)]++
				}
			}
			bitCount++
		}
		*w = 0
	}
	// Bits of one key differ, which makes χ² smaller, never larger.
	if err := chiSquare("word and bit", joint, equal(len(joint))); err != nil {
		t.Error(err)
	}
	want := 64 * (1 - math.Pow(63.0/64, bitsPerKey))
	if got := bitCount / keys; math.Abs(got-want) > 0.02 {
		t.Errorf("%.3f bits per key, want %.3f", got, want)
	}
}

// A generation that merges another filter knows whom either generation of that knows.
func TestBloomMerge(t *testing.T) {
	t.Parallel()
	for g := range uint64(2) {
		f, from := newBlooms(t, 64), newBlooms(t, 64)
		rng, digests := rand.New(rand.NewPCG(g, 5)), make([]Digest, 4)
		for i := range digests {
			digests[i] = Digest{Pos: rng.Uint64(), ID: rng.Uint64()}
		}
		f.Mark(g, digests[0])
		from.Mark(0, digests[1])
		from.Mark(1, digests[2])
		if !f.Merge(g, from) {
			t.Fatal("filters of one size do not merge")
		}
		for i, d := range digests[:3] {
			if !f.Has(g, d) {
				t.Errorf("generation %d does not know client %d", g, i)
			}
		}
		if f.Has(g, digests[3]) || f.Has(g+1, digests[1]) {
			t.Errorf("generation %d: somebody is known whom neither filter has seen", g)
		}
		if f.Merge(g, newBlooms(t, 65)) {
			t.Error("filters of two sizes merge")
		}
	}
}
