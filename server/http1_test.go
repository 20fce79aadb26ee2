package server

import (
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit/streams"
	"github.com/fastlimit/fastlimit/server/internal/http1"
)

// The corpus through package http1 alone: it reads as many requests as a server answers with 200, and refuses
// the rest. More only where the policy refuses a name or a path that HTTP does not, and never more than the
// reference reads.
func TestHTTP1ReadsTheCorpus(t *testing.T) {
	t.Parallel()
	for _, it := range streams.Corpus() {
		n, most := requestsIn([]byte(it.Stream)), it.OKs
		if strings.HasPrefix(it.Name, "host") || strings.Contains(it.Stream, "http://") || strings.Contains(it.Stream, "/%") {
			most, _ = streams.Count(it.Stream)
		}
		if n < it.OKs || n > most {
			t.Errorf("%s: %.300q: %d requests, want %d, at most %d", it.Name, it.Stream, n, it.OKs, most)
		}
	}
}

// requestsIn is the number of whole requests at the start of a stream.
func requestsIn(p []byte) (n int) {
	for {
		var r http1.Request
		head, _ := r.Parse(p)
		if head == 0 {
			return n
		}
		var b http1.Body
		b.Begin(r.Length)
		for p = p[head:]; !b.Done(); {
			skip, size, _ := b.Next(p)
			if skip+size == 0 {
				return n
			}
			p = p[skip+size:]
		}
		if n++; r.Close {
			return n
		}
	}
}

// FuzzHTTP1: package http1 reads no request that the reference, which has nothing in
// common with it, does not.
func FuzzHTTP1(f *testing.F) {
	for i, it := range streams.Corpus() {
		if len(it.Stream) < 2000 && i%7 == 0 {
			f.Add([]byte(it.Stream))
		}
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		n := requestsIn(stream)
		if most, _ := streams.Count(string(stream)); n > most {
			t.Fatalf("%q: %d requests, the reference reads %d", stream, n, most)
		}
	})
}
