package sketch

import (
	"os"
	"syscall"
	"testing"
	"unsafe"
)

// TestMemoryIsResident: all pages are there before the first request, whatever
// the size, so that a flood takes none. mincore(2) tells.
func TestMemoryIsResident(t *testing.T) {
	t.Parallel()
	page := os.Getpagesize()
	for _, n := range []int{pageBytes, 100_000, hugePageBytes + 1, 3*hugePageBytes + 12345} {
		s := Memory[byte](n)
		first := uintptr(unsafe.Pointer(unsafe.SliceData(s))) &^ uintptr(page-1)
		last := uintptr(unsafe.Pointer(&s[n-1]))
		resident := make([]byte, (last-first)/uintptr(page)+1)
		_, _, errno := syscall.Syscall(syscall.SYS_MINCORE, first, last-first+1, uintptr(unsafe.Pointer(&resident[0])))
		if errno != 0 {
			t.Fatalf("mincore: %v", errno)
		}
		for i, r := range resident {
			if r&1 == 0 {
				t.Errorf("%d bytes: page %d of %d is not resident", n, i, len(resident))
				break
			}
		}
	}
}
