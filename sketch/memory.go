package sketch

import "unsafe"

const (
	pageBytes     = 4 << 10
	hugePageBytes = 2 << 20
)

// Memory returns n zero values whose memory is resident from the start, so that a flood
// that spreads over them allocates nothing more. It asks the system for huge pages, if it
// has any: a lookup goes to a random place, and with 4 KiB pages most lookups in more than
// 8 MiB also miss the TLB (BenchmarkZipf: 20 % of a decision).
func Memory[T any](n int) []T {
	s := make([]T, n)
	if n == 0 {
		return s
	}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), n*int(unsafe.Sizeof(s[0])))
	adviseHugePages(bytes)
	for i := 0; i < len(bytes); i += pageBytes {
		bytes[i] = 0
	}
	return s
}
