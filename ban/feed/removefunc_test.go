package feed

import (
	"net/netip"
	"testing"
	"time"
)

func TestRemoveFunc(t *testing.T) {
	t.Parallel()
	f, err := Open(Config{Shadow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	around := netip.MustParsePrefix("192.0.2.0/24")
	for _, p := range []string{"192.0.2.1/32", "192.0.2.128/25", "198.51.100.1/32", "2001:db8::/64"} {
		if !f.Add(netip.MustParsePrefix(p), time.Hour) {
			t.Fatal(p)
		}
	}
	asked := 0
	if n := f.RemoveFunc(func(p netip.Prefix) bool { asked++; return around.Overlaps(p) }); n != 2 || asked != 4 {
		t.Errorf("%d were removed, of %d", n, asked)
	}
	if st := f.Stats(); st.Held != 2 || st.Removed != 2 {
		t.Errorf("%+v", st)
	}
}
