package engine

import (
	"math/rand/v2"
	"testing"
	"time"
)

// FuzzSandwich lets the fuzzer write the traffic: six bytes a request. The
// first seven choose the rule.
func FuzzSandwich(f *testing.F) {
	f.Add([]byte("\x0a\x01\x14\x80\x00\x04\x01" + "\x00\x01\x00\x00\x00\x00\x00\x01\x01\x00\x00\x00"))
	f.Add([]byte("\x01\x02\x01\x00\x01\x00\x02" + "\x01\x01\x03\xff\xff\x00\x01\x05\x02\x10\x27\x00"))
	rng := rand.New(rand.NewPCG(3, 4))
	long := make([]byte, 7+6*400)
	for i := range long {
		long[i] = byte(rng.Uint32())
	}
	f.Add(long)
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) < 7 {
			return
		}
		periods := []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour}
		cfg := rule("f", uint64(in[0])+1, periods[in[1]%4], uint64(in[2])+1)
		cfg = withTheta(cfg, float64(in[3])/255)
		cfg.Strict = in[4]&1 == 1
		geo := geometry{blocks: int(in[5]) + 1, sets: 1 << 8, words: int(in[6]) + 1, hash: randomHash}
		if in[4]&2 == 2 {
			geo.hash = degenerateHash
		}
		const clients = 8
		w := newWorld(t, rand.New(rand.NewPCG(1, 1)), clients, geo, cfg)
		var now time.Duration
		for in = in[7:]; len(in) >= 6; in = in[6:] {
			gap := time.Duration(in[2]) | time.Duration(in[3])<<8 | time.Duration(in[4])<<16
			// The sixth byte scales the gap, up to a day and more.
			now += gap << (in[5] % 32)
			if err := w.request(int(in[0])%clients, uint64(in[1])+1, now, []int{0}); err != nil {
				t.Fatal(err)
			}
		}
	})
}
