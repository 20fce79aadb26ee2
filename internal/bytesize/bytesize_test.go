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

func TestNumbers(t *testing.T) {
	t.Parallel()
	for x, want := range map[float64]string{0: "0.0", 99.94: "99.9", 99.96: "100", 9999.4: "9999", 9999.6: "10.0k", 999_949: "999.9k", 999_951: "1.00M", 1.5e8: "150.00M", 2e9: "2.00G"} {
		if got := Number(x); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
	if got := Whole(23_317); got != "23.3k" {
		t.Error(got)
	}
}
