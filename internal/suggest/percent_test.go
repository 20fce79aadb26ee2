package suggest

import (
	"math/big"
	"testing"
)

func TestParsePercent(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"99.9%": "99.9%", "99.9": "99.9%", "100%": "100%", "50 %": "50%", "099.50%": "99.5%", "99.999999%": "99.999999%"} {
		if p, err := ParsePercent(in); err != nil || p.String() != want {
			t.Errorf("%q: %v, %v, want %s", in, p, err, want)
		}
	}
	for in, want := range map[string]string{
		"":                      `"" is not a percentage; write for example 99.9%`,
		"all":                   `"all" is not a percentage; write for example 99.9%`,
		"-99":                   `"-99" is not a percentage; write for example 99.9%`,
		"99.":                   `"99." is not a percentage; write for example 99.9%`,
		"99.9%%":                `"99.9%%" is not a percentage; write for example 99.9%`,
		"0.999":                 `"0.999" is out of range; want 50% to 100%, for example 99.9%`,
		"100.000001%":           `"100.000001%" is out of range; want 50% to 100%, for example 99.9%`,
		"1e2":                   `"1e2" is not a percentage; write for example 99.9%`,
		"99.1234567%":           `"99.1234567%" has more than six decimals; write for example 99.9%`,
		"18446744073709551616%": `"18446744073709551616%" is out of range; want 50% to 100%, for example 99.9%`,
	} {
		if p, err := ParsePercent(in); err == nil || err.Error() != want {
			t.Errorf("%q: %v, %v, want %s", in, p, err, want)
		}
	}
}

func TestPercentOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		p       string
		n, want int
	}{{"99.9%", 1000, 999}, {"99.9%", 1001, 1000}, {"99.9%", 1, 1}, {"50%", 3, 2}, {"100%", 1 << 40, 1 << 40}, {"99.999999%", 100_000_000, 99_999_999}} {
		if p, err := ParsePercent(tt.p); err != nil || p.of(tt.n) != tt.want {
			t.Errorf("%s of %d is %d, want %d", tt.p, tt.n, p.of(tt.n), tt.want)
		}
	}
}

// A percentage that is accepted is the number that it reads as, and reads as itself.
func FuzzParsePercent(f *testing.F) {
	for _, s := range []string{"99.9%", "100", "50.000001 %", "99.9%%", "1e2", "٩٩", "99.99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePercent(s)
		if err != nil {
			return
		}
		if p < minSpared || p > hundred {
			t.Fatalf("%q is %d", s, p)
		}
		again, err := ParsePercent(p.String())
		if err != nil || again != p {
			t.Fatalf("%q is %v, which is %v, %v", s, p, again, err)
		}
		const n = 12345
		exact := new(big.Rat).Mul(big.NewRat(int64(p), int64(hundred)), big.NewRat(n, 1))
		k := big.NewRat(int64(p.of(n)), 1)
		if k.Cmp(exact) < 0 || new(big.Rat).Sub(k, big.NewRat(1, 1)).Cmp(exact) >= 0 {
			t.Fatalf("%v of %d is %v", p, n, k)
		}
	})
}
