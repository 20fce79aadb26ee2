// Package bytesize writes sizes of memory as people write them.
package bytesize

import "fmt"

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
