package replay

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// hit is a request of a generated log.
type hit struct {
	at     int64 // Unix seconds
	client netip.Addr
	delay  int64 // until its line is written
}

// generate makes up a day at a web server: clients by Zipf, most of them slow,
// some in bursts, a few that never stop; lines are written when a request
// ends, so they are out of order by up to spread seconds.
func generate(n int, spread int64) []hit {
	rnd := rand.New(rand.NewPCG(2, 2026))
	zipf := rand.NewZipf(rnd, 1.1, 8, 5000)
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).Unix()
	var hits []hit
	for at := start; len(hits) < n; at += rnd.Int64N(3) {
		h := hit{at: at, client: clientAddr(zipf.Uint64())}
		burst := 1
		if rnd.IntN(50) == 0 {
			burst = 1 + rnd.IntN(60)
		}
		for range min(burst, n-len(hits)) {
			h.delay = 0
			if rnd.IntN(2) == 0 {
				h.delay = rnd.Int64N(spread + 1)
			}
			hits = append(hits, h)
			h.at += rnd.Int64N(2)
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(a.at+a.delay, b.at+b.delay) })
	return hits
}

// clientAddr makes every third client one of IPv6.
func clientAddr(i uint64) netip.Addr {
	if i%3 == 0 {
		a := netip.MustParseAddr("2001:db8::").As16()
		a[6], a[7], a[15] = byte(i>>8), byte(i), byte(i%7)
		return netip.AddrFrom16(a)
	}
	return netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)})
}

func (h *hit) String() string {
	t := time.Unix(h.at, 0).In(time.FixedZone("", 3600*int(h.at%5-2)))
	return fmt.Sprintf("%v - - [%s] \"GET /p%d?q HTTP/1.1\" 200 5 \"-\" \"agent \\\"%d\\\"\"\n", h.client, t.Format(stampLayout), h.at%9, h.at%4)
}

func logOf(hits []hit) string {
	var b strings.Builder
	for i := range hits {
		b.WriteString(hits[i].String())
	}
	return b.String()
}
