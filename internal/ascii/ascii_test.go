package ascii

import (
	"strconv"
	"strings"
	"testing"
)

func TestIsToken(t *testing.T) {
	t.Parallel()
	for c := range 256 {
		want := c > ' ' && c < 0x7f && !strings.ContainsRune(`"(),/:;<=>?@[\]{}`, rune(c)) // the delimiters of RFC 9110
		if got := IsToken("X" + string([]byte{byte(c)})); got != want {
			t.Errorf("%q: %v", byte(c), got)
		}
	}
	if IsToken("") {
		t.Error("nothing is a token")
	}
}

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
