package bytesize

import "testing"

func TestText(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0 bytes", 1000: "1000 bytes", 1 << 10: "1KiB", 1<<10 + 1: "1025 bytes", 3 << 19: "1536KiB", 64 << 20: "64MiB", 1 << 30: "1024MiB",
	} {
		if got := Text(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
