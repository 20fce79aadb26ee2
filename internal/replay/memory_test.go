package replay

import (
	"io"
	"runtime"
	"testing"

	"github.com/fastlimit/fastlimit/policy"
)

// repeated gives the same text again and again, n times.
type repeated struct {
	text string
	n    int
	at   int
}

func (r *repeated) Read(b []byte) (int, error) {
	n := 0
	for n < len(b) && r.n > 0 {
		c := copy(b[n:], r.text[r.at:])
		n, r.at = n+c, r.at+c
		if r.at == len(r.text) {
			r.n, r.at = r.n-1, 0
		}
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// A line that is held takes what the package comment says: the record, and
// nothing for a list that grows. Not parallel, as it looks at the memory of the
// process.
func TestMemoryOfALine(t *testing.T) {
	const n = 20 * runLength // 650,000 lines
	c := config(policy.Settings{Rules: []policy.RuleSpec{rule("per-ip", "10/m", 20)}})
	var before, read runtime.MemStats
	c.Judged = func(done, all int) {
		if done == 0 && read.Mallocs == 0 { // all is read, nothing is judged
			runtime.GC()
			runtime.ReadMemStats(&read)
			if all != n {
				t.Errorf("%d of %d lines are held", all, n)
			}
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&before)
	line := &repeated{text: `192.0.2.7 - - ` + stamp + " \"GET / HTTP/1.1\" 200 1 \"-\" \"curl\"\n", n: n}
	if _, err := run(t.Context(), line, c); err != nil {
		t.Fatal(err)
	}
	const limiter = 6 << 20 // the memory of config, and buffers
	held := float64(read.HeapAlloc-before.HeapAlloc-limiter) / n
	if held > 1.1*float64(recordBytes) {
		t.Errorf("%.1f bytes held for each line, want %d", held, recordBytes)
	}
	// What was ever allocated: the record, and 24 bytes of netip's parser. A
	// slice that grows by a quarter copies itself about five times.
	if ever := float64(read.TotalAlloc-before.TotalAlloc-limiter) / n; ever > 2*float64(recordBytes) {
		t.Errorf("%.1f bytes allocated for each line, want %d and a little", ever, recordBytes)
	}
}
