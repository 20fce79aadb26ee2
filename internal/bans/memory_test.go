package bans

import (
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"
	"time"
)

// Memory is an upper bound: scattered IPv6 addresses take the most, and a snapshot shares nearly everything
// with the one that it replaces.
func TestMemory(t *testing.T) { // not parallel: it counts the heap
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc) // below 2^63
	}
	w := build(t)
	r := rand.New(rand.NewPCG(1, 2)) // the same each time
	before := heap()
	for range maxPrefixes {
		a := [16]byte{0x20, 0x01}
		for i := 2; i < 16; i++ {
			a[i] = byte(r.Uint32())
		}
		if w.set(netip.PrefixFrom(netip.AddrFrom16(a), 128), time.Hour, string(make([]byte, maxReason))).times == 0 {
			t.Fatal("no room")
		}
	}
	n := heap() - before
	t.Logf("%d bytes, %d for each ban", n, n/maxPrefixes)
	if n > Memory || n < Memory/3 {
		t.Errorf("%d bytes, Memory is %d", n, Memory)
	}
	runtime.KeepAlive(w)
}
