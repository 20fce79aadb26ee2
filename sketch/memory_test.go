package sketch

import (
	"testing"
	"unsafe"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	if s := Memory[block](0); len(s) != 0 {
		t.Errorf("Memory(0) has length %d", len(s))
	}
	for _, n := range []int{1, 7, 63, 64, 65, 1 << 10, hugePageBytes/64 + 3, 2 * hugePageBytes / 64} {
		s := Memory[block](n)
		if len(s) != n || cap(s) != n {
			t.Errorf("Memory(%d) has length %d and capacity %d", n, len(s), cap(s))
		}
		if a := uintptr(unsafe.Pointer(&s[0])); a%64 != 0 {
			t.Errorf("Memory(%d) begins at %#x, not at a cache line", n, a)
		}
		for i := range s {
			if s[i] != (block{}) {
				t.Fatalf("Memory(%d): element %d is not zero", n, i)
			}
		}
	}
}
