package conn

import (
	"bufio"
	"io"
	"net/http"
	"testing"
	"time"
)

// A head is accepted up to MaxHeaderBytes and not a byte more, however it is cut into packets, and the
// connection continues after it.
func TestHeadsUpToTheBound(t *testing.T) {
	t.Parallel()
	for _, bound := range []int{1 << 10, smallHead, 8 << 10, 32 << 10} {
		s := start(t, Limits{Max: 1000, HeadBytes: bound})
		for _, length := range []int{100, smallHead - 1, smallHead, smallHead + 1, bound/2 + 100, bound - 1, bound, bound + 1, bound + 5000} {
			for _, step := range []int{1 << 20, 4096, 1000} {
				c := dialFrom(t, "127.0.0.1", s.addr)
				br := bufio.NewReader(c)
				want := 200
				if length > bound {
					want = 431
				}
				for range 2 { // the second on the same connection
					text := headOf(length, "")
					go func() {
						for len(text) > 0 {
							n := min(step, len(text))
							if _, err := io.WriteString(c, text[:n]); err != nil {
								return
							}
							text = text[n:]
							time.Sleep(100 * time.Microsecond) // mostly a packet of its own
						}
					}()
					resp, err := http.ReadResponse(br, nil)
					if err != nil || resp.StatusCode != want {
						t.Fatalf("bound %d, head of %d in steps of %d: %v %v, want %d", bound, length, step, resp, err, want)
					}
					if resp.Close != (want == 431) {
						t.Errorf("bound %d, head of %d: close %v", bound, length, resp.Close)
					}
					if want == 431 {
						break
					}
				}
				c.Close()
			}
		}
		eventually(t, func() bool { return s.conns.Open() == 0 })
		s.conns.mu.Lock()
		if len(s.conns.longs.members) != 0 {
			t.Error("long heads are left")
		}
		s.conns.mu.Unlock()
	}
}

// No more long heads are held than there is memory for: the oldest goes.
func TestStalledLongHeads(t *testing.T) {
	t.Parallel()
	s := start(t, Limits{Max: 1000, HeadBytes: LargeHeadBytes / 2})
	held := func(n int) func() bool {
		return func() bool {
			s.conns.mu.Lock()
			defer s.conns.mu.Unlock()
			return len(s.conns.longs.members) == n
		}
	}
	first := dialFrom(t, "127.0.0.1", s.addr)
	io.WriteString(first, headOf(9000, "")[:6000])
	eventually(t, held(1))
	s.conns.sweep()
	second := dialFrom(t, "127.0.0.1", s.addr)
	io.WriteString(second, headOf(9000, "")[:6000])
	eventually(t, held(2))
	third := dialFrom(t, "127.0.0.1", s.addr)
	io.WriteString(third, headOf(9000, ""))
	if resp, err := http.ReadResponse(bufio.NewReader(third), nil); err != nil || resp.StatusCode != 200 {
		t.Errorf("the newcomer: %v %v", resp, err)
	}
	if resp, err := http.ReadResponse(bufio.NewReader(first), nil); err != nil || resp.StatusCode != 408 {
		t.Errorf("the oldest: %v %v", resp, err)
	}
	io.WriteString(second, headOf(9000, "")[6000:])
	if resp, err := http.ReadResponse(bufio.NewReader(second), nil); err != nil || resp.StatusCode != 200 {
		t.Errorf("the other: %v %v", resp, err)
	}
	if n := s.conns.dismissed[reasonLarge].Load(); n != 1 {
		t.Errorf("counted %d", n)
	}
}
