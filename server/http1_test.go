package server

import (
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/server/internal/http1"
)

// The corpus through package http1 by itself: it reads as many requests as a server
// answers with 200, and refuses the rest. More only where the policy refuses a
// name or a path that HTTP does not, and never more than the reference reads.
func TestHTTP1ReadsTheCorpus(t *testing.T) {
	t.Parallel()
	for _, it := range corpus() {
		n, most := requestsIn([]byte(it.stream)), it.oks
		if strings.HasPrefix(it.name, "host") || strings.Contains(it.stream, "http://") || strings.Contains(it.stream, "/%") {
			most = reference(it.stream)
		}
		if n < it.oks || n > most {
			t.Errorf("%s: %.300q: %d requests, want %d, at most %d", it.name, it.stream, n, it.oks, most)
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
	for i, it := range corpus() {
		if len(it.stream) < 2000 && i%7 == 0 {
			f.Add([]byte(it.stream))
		}
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		if n, most := requestsIn(stream), reference(string(stream)); n > most {
			t.Fatalf("%q: %d requests, the reference reads %d", stream, n, most)
		}
	})
}
