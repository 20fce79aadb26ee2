package ascii

import (
	"strconv"
	"testing"
)

func TestHex(t *testing.T) {
	t.Parallel()
	for c := range 256 {
		want := -1
		if v, err := strconv.ParseUint(string([]byte{byte(c)}), 16, 8); err == nil {
			want = int(v)
		}
		if got := Hex(byte(c)); got != want {
			t.Errorf("%q: %d, want %d", byte(c), got, want)
		}
	}
}
