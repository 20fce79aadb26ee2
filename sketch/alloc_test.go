package sketch

import "testing"

// TestNoAllocations: nothing on the path of a request allocates.
func TestNoAllocations(t *testing.T) {
	s, f, h := newLeaky(t, 64, noLimit), newBlooms(t, 64), newHasher(t, testSecret(), "x")
	talkers := newTalkers(t, 8)
	var slot Slot
	key := make([]byte, 64)
	now := uint64(1 << 30)
	var d Digest
	for name, op := range map[string]func(){
		"Add":            func() { s.Add(d, now, 10) },
		"Level":          func() { s.Level(d, now) },
		"Busy":           func() { s.Busy(now, 16) },
		"Charge":         func() { s.Charge(d, now, 10) },
		"TopTalkers.Add": func() { talkers.Add(d, 1) },
		"Insert":         func() { talkers.Insert(Digest{Pos: now, ID: now}, now&1+1, key) },
		"Shed":           func() { talkers.Shed(d, 64) },
		"Read":           func() { talkers.Read(0, &slot) },
		"Turn":           func() { talkers.Turn() },
		"Floor":          func() { talkers.Floor() },
		"Mark":           func() { f.Mark(0, d) },
		"Has":            func() { f.Has(1, d) },
		"Reset":          func() { f.Reset(1) },
		"Word4":          func() { d = h.Word4(uint32(now)) },
		"Word6":          func() { d = h.Word6(now) },
		"Pair6":          func() { d = h.Pair6(now, now) },
		"Bytes 16 B":     func() { d = h.Bytes(key[:16]) },
		"Bytes 64 B":     func() { d = h.Bytes(key) },
		"Append":         func() { d = h.Append(d, key) },
	} {
		if n := testing.AllocsPerRun(100, func() { now += 7; op() }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
