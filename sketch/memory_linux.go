package sketch

import (
	"syscall"
	"unsafe"
)

// adviseHugePages asks for huge pages for the whole ones within b. The advice
// changes nothing but speed, so a refusal is ignored.
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
