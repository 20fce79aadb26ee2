package sketch

import (
	"syscall"
	"unsafe"
)

// adviseHugePages asks for huge pages for all that fit within b. The advice only affects
// speed, so a refusal is ignored.
func adviseHugePages(b []byte) {
	const madvHugepage = 14 // MADV_HUGEPAGE of asm-generic/mman-common.h
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (hugePageBytes - 1)
	if skip >= uintptr(len(b)) {
		return
	}
	if b = b[skip:]; len(b) < hugePageBytes {
		return
	}
	_ = syscall.Madvise(b[:len(b)&^(hugePageBytes-1)], madvHugepage)
}
