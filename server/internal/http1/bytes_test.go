package http1

import (
	"bytes"
	"testing"
)

// Every control byte is found wherever it stands, and nothing before it.
func TestControlByte(t *testing.T) {
	t.Parallel()
	for length := range 20 {
		for at := range length + 1 {
			for c := range 256 {
				b := bytes.Repeat([]byte{' '}, length)
				want := length
				if at < length {
					if b[at] = byte(c); c < ' ' || c == 0x7f {
						want = at
					}
				}
				for from := range min(want+1, length) {
					if got := ControlByte(b, from); got != want {
						t.Fatalf("%q from %d: %d, want %d", b, from, got, want)
					}
				}
			}
		}
	}
}
