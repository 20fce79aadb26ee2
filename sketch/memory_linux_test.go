package sketch

import (
	"os"
	"runtime/debug"
	"syscall"
	"testing"
	"unsafe"
)

const talkerBytes = int(unsafe.Sizeof(talkerSet{}))

// TestMemoryIsResident: all pages are there before the first request, whatever
// the size, so that a flood takes none. mincore(2) tells.
func TestMemoryIsResident(t *testing.T) { // not parallel: what others have freed is resident too
	page := os.Getpagesize()
	for _, n := range []int{pageBytes, 100_000, hugePageBytes + 1, 3*hugePageBytes + 12345} {
		n /= talkerBytes
		debug.FreeOSMemory()
		s := Memory[talkerSet](n)
		first := uintptr(unsafe.Pointer(unsafe.SliceData(s))) &^ uintptr(page-1)
		last := uintptr(unsafe.Pointer(&s[n-1])) + uintptr(talkerBytes) - 1
		resident := make([]byte, (last-first)/uintptr(page)+1)
		_, _, errno := syscall.Syscall(syscall.SYS_MINCORE, first, last-first+1, uintptr(unsafe.Pointer(&resident[0])))
		if errno != 0 {
			t.Fatalf("mincore: %v", errno)
		}
		for i, r := range resident {
			if r&1 == 0 {
				t.Errorf("%d sets: page %d of %d is not resident", n, i, len(resident))
				break
			}
		}
	}
}
