package server

import (
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit/streams"
)

// FuzzGate: for any stream the server answers no more requests with 200 than
// the reference reads in it, charges exactly those, and reads nothing behind
// what it refused, no matter how the stream is cut.
func FuzzGate(f *testing.F) {
	for i, it := range streams.Corpus() {
		if len(it.Stream) < 2000 && i%7 == 0 {
			f.Add([]byte(it.Stream), uint8(i))
		}
	}
	s := unlimited(f)
	f.Fuzz(func(t *testing.T, stream []byte, how uint8) {
		all, charged := statuses(t, s, cut(string(stream), int(how))...)
		oks := countOKs(all)
		most, early := streams.Count(string(stream))
		if early && how > 0 {
			most++
		}
		if oks > most {
			t.Fatalf("%q: %v, but the reference reads %d requests", stream, all, most)
		}
		if uint64(oks) != charged {
			t.Fatalf("%q: %d times 200, %d charged", stream, oks, charged)
		}
		for i, status := range all {
			if status != 200 && i != len(all)-1 {
				t.Fatalf("%q: answered on after a refusal: %v", stream, all)
			}
		}
	})
}
