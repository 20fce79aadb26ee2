// Package bytesize writes sizes of memory, and other large numbers, as people write them.
package bytesize

import (
	"fmt"
	"strconv"
)

// Text is the size without rounding: 64MiB, 1536KiB or 1000 bytes.
func Text(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%dKiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

// Number is up to 7 columns wide below 10^9.
func Number(x float64) string {
	switch {
	case x < 99.95:
		return fmt.Sprintf("%.1f", x)
	case x < 9999.5:
		return fmt.Sprintf("%.0f", x)
	case x < 999_950:
		return fmt.Sprintf("%.1fk", x/1e3)
	case x < 999_995_000:
		return fmt.Sprintf("%.2fM", x/1e6)
	}
	return fmt.Sprintf("%.2fG", x/1e9)
}

// Whole is Number of what can be counted.
func Whole(n uint64) string {
	if n < 10_000 {
		return strconv.FormatUint(n, 10)
	}
	return Number(float64(n))
}
