package testkit

import "testing"

// No port is given out twice before the block is through, nor one on which somebody listens;
// nor can another process have the block.
func TestFreePort(t *testing.T) {
	first := FreePort(t)
	taken, err := listen(first + 1)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	seen := map[int]bool{first: true, first + 1: true}
	for range blockPorts - 3 {
		port := FreePort(t)
		if seen[port] {
			t.Fatalf("%d again", port)
		}
		seen[port] = true
	}
	if port := FreePort(t); port != first {
		t.Errorf("after the whole block %d, not %d", port, first)
	}
	if !isFree(first) || isFree(first-1) {
		t.Errorf("the block is not claimed by its first port alone")
	}
}
