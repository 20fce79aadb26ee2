package redisstore

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket/storetest/trial"
	"github.com/fastlimit/fastlimit/internal/testkit"
)

// What Redis answers passes, in pieces of any size, and what cannot be does not.
func TestAnswers(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return strings.Repeat("*1\r\n", n) + ":1\r\n" }
	for text, fine := range map[string]bool{
		"+OK\r\n": true, "-ERR no\r\n": true, ":-5\r\n": true, "$0\r\n\r\n": true, "$-1\r\n": true, "*-1\r\n": true, "*0\r\n": true, "$5\r\na\r\nbc\r\n": true,
		"*3\r\n*2\r\n:1\r\n$-1\r\n*0\r\n+x\r\n": true,
		nested(maxDepth):                        true, nested(maxDepth + 1): false,
		"+" + strings.Repeat("a", maxLine-3) + "\r\n": true, "+" + strings.Repeat("a", maxLine-2) + "\r\n": false,
		fmt.Sprintf("$%d\r\n%s\r\n", maxString, strings.Repeat("a", maxString)): true, fmt.Sprintf("$%d\r\n", maxString+1): false,
		fmt.Sprintf("*%d\r\n", maxArray) + strings.Repeat(":1\r\n", maxArray): true, fmt.Sprintf("*%d\r\n", maxArray+1): false,
		"*4096\r\n" + strings.Repeat("*15\r\n"+strings.Repeat(":1\r\n", 15), 4096): true, "*4096\r\n" + strings.Repeat("*16\r\n"+strings.Repeat(":1\r\n", 16), 4096): false,
		"*5\r\n" + strings.Repeat(fmt.Sprintf("$%d\r\n%s\r\n", maxString, strings.Repeat("a", maxString)), 4): false,
		"*9223372036854775807\r\n": false, "$99999999999999999999\r\n": false, "*-2\r\n": false, "*--1\r\n": false, "*1-\r\n": false, "$-10\r\n": false, "*x\r\n": false,
		"%1\r\n+a\r\n+b\r\n": true, "~1\r\n+a\r\n": true, ">1\r\n+a\r\n": true, "_\r\n": true, ",nan\r\n": true, "#t\r\n": true, "*1\r\n(12345678901234567890\r\n": true, "*1\r\n:1763596800000000\r\n": true, ":99999\r\n": true, "+1e9999999\r\n": true, ":100000\r\n": false, "+4000000000\r\n": false, "#100000000\r\n": false, "!3\r\nERR\r\n": true, "=5\r\ntxt:a\r\n": true,
		"|1\r\n+a\r\n+b\r\n": false, "%2049\r\n": false, fmt.Sprintf("!%d\r\n", maxString+1): false, fmt.Sprintf("=%d\r\n", maxString+1): false, "\r\n": false, "HTTP/1.1 200 OK\r\n": false,
	} {
		for _, piece := range []int{1, 7, 4096, len(text)} {
			var a answers
			var err error
			for p := []byte(text + text); len(p) > 0 && err == nil; {
				n := min(piece, len(p))
				err, p = a.add(p[:n]), p[n:]
			}
			if err == nil != fine || fine && (a != answers{open: a.open}) {
				t.Errorf("%.40q in pieces of %d: %v, %+v", text, piece, err, a)
			}
			if err != nil && (classify(err) != classProtocol || a.add([]byte("+OK\r\n")) == nil) {
				t.Errorf("%.40q: %v, and then what follows is read", text, err)
			}
		}
	}
}

// Where numbers are counts they have any size; what else could be a length stays bounded.
func TestAnswersThatCount(t *testing.T) {
	t.Parallel()
	for text, fine := range map[string]bool{":9223372036854775807\r\n": true, "*1\r\n:1\r\n:100000\r\n": true, "+4000000000\r\n": false, "*4097\r\n": false} {
		a := answers{counts: true}
		if err := a.add([]byte(text)); err == nil != fine {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// lying returns a store of which nothing but the server is not as ever.
func lying(t testing.TB, text []byte, times int, password string) *Store {
	t.Helper()
	d, err := newDriver(Config{Addrs: []string{"127.0.0.1:1"}, Password: password, Timeout: time.Minute}, production)
	if err != nil {
		t.Fatal(err)
	}
	o := *d.client.options
	var dials atomic.Int64
	o.Dialer = func(context.Context, string, string) (net.Conn, error) {
		if dials.Add(1) > 200 { // else one that scans without an end is asked for all pages that may be
			return nil, io.EOF
		}
		return bind(&trial.Liar{First: string(text), Then: string(text), Times: times - 1}, false), nil
	}
	_ = d.client.close()
	d.client = newClient(&o, d.config.Logger)
	return &Store{driver: d}
}

// ask has a store do all it can, and returns its errors.
func ask(t testing.TB, s *Store) (errs []error) {
	t.Helper()
	errs = trial.AskForAll(t, s.driver)
	r := s.Registry("overrides")
	defer func() { _ = r.Close() }()
	if _, err := r.Read(t.Context()); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// Whoever answers as Redis decides; it takes neither the process nor its memory.
func TestHostileAnswers(t *testing.T) { // not parallel: it counts all that is allocated
	for name, text := range map[string]string{
		"a long string": "$2000000000\r\n", "a string": "$500000000\r\n" + strings.Repeat("a", 1<<20), "an array beyond all": "*9223372036854775807\r\n",
		"a long array": "*100000000\r\n", "a map": "%4000000000000000000\r\n", "attributes": "|100000000\r\n", "arrays in arrays": "*1\r\n", "wide arrays": "*4096\r\n",
		"an endless line": strings.Repeat("+a", 1<<16), "endless elements": "*4096\r\n" + strings.Repeat(":1\r\n", 4095) + "*4096\r\n", "strings": "*4096\r\n" + strings.Repeat("$1000000\r\n"+strings.Repeat("a", 1000000)+"\r\n", 9),
	} {
		var before, after runtime.MemStats
		s := lying(t, []byte(text), 1<<14, "")
		runtime.ReadMemStats(&before)
		errs := ask(t, s)
		runtime.ReadMemStats(&after)
		if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 64 {
			t.Errorf("%s: %d MiB allocated", name, mib)
		}
		if len(errs) == 0 {
			t.Errorf("%s: no error", name)
		}
		for _, err := range errs {
			if classify(err) != classProtocol {
				t.Errorf("%s: %v", name, err)
				break
			}
		}
		_ = s.driver.Close()
	}
}

// A connection that cannot be set up says why.
func TestRefusedConnections(t *testing.T) {
	t.Parallel()
	for range 20 {
		s := lying(t, []byte("-WRONGPASS invalid username-password pair\r\n"), 100, "secret")
		for _, err := range ask(t, s) {
			if classify(err) != classAuth {
				t.Error(err)
			}
		}
		_ = s.driver.Close()
	}
}

// possible are answers of which some are right somewhere.
func possible() (all [][]byte) {
	for _, text := range []string{
		"*12\r\n" + strings.Repeat(":1\r\n", 12), "*33\r\n" + strings.Repeat(":1\r\n", 33), "*33\r\n" + strings.Repeat("$1\r\n1\r\n", 33), "-NOSCRIPT x\r\n", "-MOVED 1 127.0.0.1:6\r\n",
		"-ASK 16383 :0\r\n", "-MOVED \r\n", "*2\r\n$1\r\n5\r\n:0\r\n", "*2\r\n$1\r\n0\r\n:0\r\n*6\r\n$1\r\n0\r\n:0\r\n$1\r\nn\r\n$1\r\nv\r\n$1\r\n1\r\n$1\r\n9\r\n", "$-1\r\n", "*-1\r\n", ":0\r\n",
	} {
		all = append(all, []byte(text), bytes.Repeat([]byte(text), 3))
	}
	return append(all, []byte("-1\r\n#")) // go-redis panics
}

func lie(t testing.TB, text []byte) {
	s := lying(t, text, 2, "")
	ask(t, s)
	_ = s.driver.Close()
}

// FuzzServer is a Redis that answers anything.
func FuzzServer(f *testing.F) {
	for _, text := range possible() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) { lie(t, text) })
}

// A Redis that answers anything, over and over, neither ends the process nor fills its memory.
func TestAnyAnswers(t *testing.T) { // not parallel: it measures memory
	rng, all := rand.New(rand.NewPCG(1, 3)), possible()
	trial.Grows(t, 100<<20, func() {
		for range testkit.Size(1000, 1_000_000) {
			lie(t, testkit.Mutate(rng, all[rng.IntN(len(all))]))
		}
	})
}
