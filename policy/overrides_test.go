package policy

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"pgregory.net/rapid"
)

func hourly(n uint64) fastlimit.Rate { return fastlimit.Rate{N: n, Per: time.Hour} }

// admits is how many requests of the client are admitted, at most ten, and what stage
// decided about the first.
func admits(e *Engine, r *Request) (n int, first fastlimit.Stage) {
	var s Scratch
	for i := range 10 {
		v := e.Decide(context.Background(), r, &s)
		if i == 0 {
			first = v.Decision.Stage
		}
		if v.Decision.Allowed {
			n++
		}
	}
	return n, first
}

func TestOverridesOfAddresses(t *testing.T) {
	t.Parallel()
	e := mustEngine(t, Settings{Rules: []RuleSpec{{Limit: ruleOf("a", 2), Key: key(byIP), Overrides: []Override{
		{Key: []string{"10.0.0.0/8"}, Unlimited: true},
		{Key: []string{"10.1.0.0/16"}, Rate: hourly(3)},
		{Key: []string{"10.1.2.3"}, Burst: 5},
		{Key: []string{"::ffff:10.1.2.4"}, Rate: hourly(1), Burst: 6},
		{Key: []string{"10.1.2.5"}, Rate: hourly(1)}, // the same rate, and another limit
		{Key: []string{"2001:db8::/64"}, Rate: hourly(4)},
	}}}})
	for client, want := range map[string]int{
		"192.0.2.1": 2, "10.9.9.9": 10, "10.1.9.9": 3, "10.1.9.8": 3, "10.1.2.3": 5, "10.1.2.4": 6, "10.1.2.5": 1, "2001:db8::7": 4, "2001:db8:0:1::7": 2, "::ffff:10.9.9.9": 10,
	} {
		r := sampleRequest(client)
		got, stage := admits(e, r)
		if got != want || (stage == fastlimit.StageList) != (want == 10) {
			t.Errorf("%s: %d admitted, the first by %v; want %d", client, got, stage, want)
		}
		limit, _, free, err := e.LimitFromText(e.rules[0].limit, e.KeyText(e.rules[0].limit, r).Parts)
		if err != nil || free != (want == 10) || !free && limit.Config().Burst != uint64(want) {
			t.Errorf("%s by text: %v, %t, %v", client, limit, free, err)
		}
	}
	if got := e.rules[0].limit.Stats().Allowed[fastlimit.StageList]; got != 20 {
		t.Errorf("%d requests without limit are counted, want 20", got)
	}
}

func TestOverridesOfParts(t *testing.T) {
	t.Parallel()
	e := mustEngine(t, Settings{Rules: []RuleSpec{
		{Limit: ruleOf("a", 2), Key: key(byHeader, byIP), Overrides: []Override{
			{Key: []string{"k1", "192.0.2.1"}, Rate: hourly(4)},
			{Key: []string{"k1", "192.0.2.2"}, Unlimited: true},
		}},
		{Limit: ruleOf("b", 7), Key: key(byIP)},
	}})
	for client, want := range map[string]int{"192.0.2.1": 4, "192.0.2.2": 7, "192.0.2.3": 2} {
		r := sampleRequest(client)
		if got, _ := admits(e, r); got != want {
			t.Errorf("%s: %d admitted, want %d", client, got, want)
		}
	}
}

// The longest prefix decides, whatever the order of the list.
func TestLongestOverride(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spec := RuleSpec{Limit: ruleOf("a", 1), Key: key(byIP)}
		burst := map[netip.Prefix]uint64{}
		for i := range rapid.IntRange(1, 20).Draw(t, "n") {
			addr := netip.AddrFrom4([4]byte{10, byte(rapid.IntRange(0, 1).Draw(t, "b")), byte(rapid.IntRange(0, 1).Draw(t, "c")), byte(rapid.IntRange(0, 3).Draw(t, "d"))})
			p, _ := addr.Prefix(rapid.IntRange(1, 32).Draw(t, "bits"))
			if burst[p] == 0 {
				burst[p] = uint64(i + 2)
				spec.Overrides = append(spec.Overrides, Override{Key: []string{p.String()}, Burst: burst[p]})
			}
		}
		s := Settings{Rules: []RuleSpec{spec}}
		lim, err := fastlimit.New(fastlimit.Config{Rules: s.Limits()})
		if err != nil {
			t.Fatal(err)
		}
		e, err := New(lim, s)
		if err != nil {
			t.Fatal(err)
		}
		client := netip.AddrFrom4([4]byte{10, 0, byte(rapid.IntRange(0, 1).Draw(t, "c")), byte(rapid.IntRange(0, 3).Draw(t, "d"))})
		longest, want := -1, uint64(1)
		for p, b := range burst {
			if p.Contains(client) && p.Bits() > longest {
				longest, want = p.Bits(), b
			}
		}
		got := e.Applying(&Request{Client: client}, new(Scratch))[0].Rule.Config().Burst
		if got != want {
			t.Fatalf("%v of %v: burst %d, want %d", client, spec.Overrides, got, want)
		}
	})
}

// The sieve of prefixes lets every client of one through, and few others.
func TestSieve(t *testing.T) {
	t.Parallel()
	const n = 10_000
	for _, bits := range []int{24, 32, 64, 96, 128} {
		var w wide
		addr := spread
		if bits > 32 {
			addr = spread6
		}
		for i := range n {
			p, _ := addr(i).Prefix(bits)
			w.add(p, i, n)
		}
		passed := 0
		for i := range n {
			if _, length := w.find(addr(i)); length != bits {
				t.Fatalf("/%d: %v is held back", bits, addr(i))
			}
			if w.may(addr(i + 5_000_000)) {
				passed++
			}
		}
		if bits != 24 && passed > n/100 {
			t.Errorf("/%d: %d of %d others pass", bits, passed, n)
		}
	}
}

// manyOverrides are n overrides of 100 limits for addresses, or users, all over the place.
func manyOverrides(n int, byAddress bool) []Override {
	all := make([]Override, n)
	for i := range all {
		text := "user-" + strconv.Itoa(i)
		if byAddress {
			text = spread(i).String()
		}
		all[i] = Override{Key: []string{text}, Rate: fastlimit.Rate{N: uint64(i%100 + 1), Per: time.Second}, Burst: 100}
	}
	return all
}

// spread is a bijection that puts neighbours far apart.
func spread(i int) netip.Addr { return v4(uint32(i+1) * 0x9e3779b1) }

// spread6 is spread for IPv6, within 2001::/16 and each in a /64 of its own.
func spread6(i int) netip.Addr {
	b := [16]byte{0x20, 1, 13: 7}
	v := spread(i).As4()
	copy(b[4:], v[:])
	return netip.AddrFrom16(b)
}

// Overrides take no more than is reserved for them, settings included.
func TestOverrideMemory(t *testing.T) { // not parallel: it counts all that is allocated
	const n = DefaultMaxOverrides
	for _, kind := range []string{"IPv4", "IPv6", "prefixes", "text"} {
		spec := RuleSpec{Limit: ruleOf("a", 2), Key: key(byHeader)}
		if kind != "text" {
			spec.Key = key(byIP)
		}
		lim, err := fastlimit.New(fastlimit.Config{Rules: []fastlimit.RuleConfig{{Name: "a", Rate: hourly(1), Tiers: make([]fastlimit.Tier, 100)}}})
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		spec.Overrides = manyOverrides(n, kind != "text")
		for i := range spec.Overrides {
			switch kind {
			case "IPv6":
				spec.Overrides[i].Key[0] = spread6(i).String()
			case "prefixes":
				p, _ := spread6(i).Prefix(63 - i%8) // of which there are that many: spread differs in 32 bits
				spec.Overrides[i].Key[0] = p.String()
			}
		}
		l, err := spec.fileLayer(lim.Rules()[0])
		if err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		used := int64(after.HeapAlloc - before.HeapAlloc)
		s := Settings{Rules: []RuleSpec{spec}}
		t.Logf("%s: %d bytes for each override, reserved %d", kind, used/n, s.OverrideMemory()/n)
		if used > s.OverrideMemory() || used > n*overrideBytes {
			t.Errorf("%s: %d bytes for each override, reserved %d", kind, used/n, s.OverrideMemory()/n)
		}
		runtime.KeepAlive(l)
		runtime.KeepAlive(spec)
	}
}

func TestOverridesDoNotAllocate(t *testing.T) { // not parallel, as the others
	for _, byAddress := range []bool{true, false} {
		spec := RuleSpec{Limit: ruleOf("a", 2), Key: key(byHeader), Overrides: append(manyOverrides(100, byAddress), Override{Key: []string{"k1"}, Unlimited: true})}
		if byAddress {
			spec.Key, spec.Overrides[100].Key = key(byIP), []string{"192.0.2.1"}
		}
		e := mustEngine(t, Settings{Rules: []RuleSpec{spec}})
		for _, client := range []string{"192.0.2.1", "192.0.2.2", spread(7).String()} {
			r, ctx := liveRequest(client), t.Context()
			var s Scratch
			e.Decide(ctx, r, &s)
			wantNoAllocs(t, fmt.Sprint(byAddress, client), func() { e.Decide(ctx, r, &s) })
		}
	}
}

// BenchmarkOverrides is a decision on one of 10^6 clients, without overrides, and with
// 100,000 for others and for a tenth of them.
func BenchmarkOverrides(b *testing.B) {
	for _, overrides := range []int{0, DefaultMaxOverrides} {
		for _, byAddress := range []bool{true, false} {
			spec := benchRule("a", key(byHeader), Match{})
			spec.Overrides = manyOverrides(overrides, byAddress)
			if byAddress {
				spec.Key = key(byIP)
			}
			s := Settings{Rules: []RuleSpec{spec}}
			lim, err := fastlimit.New(fastlimit.Config{Rules: s.Limits(), Reserved: s.OverrideMemory(), Memory: 128 << 20})
			if err != nil {
				b.Fatal(err)
			}
			e, err := New(lim, s)
			if err != nil {
				b.Fatal(err)
			}
			f := &constFields{header: [][]byte{make([]byte, 0, 32)}}
			r, ctx := liveRequest("192.0.3.1"), b.Context()
			r.Fields = f
			for _, whose := range []struct {
				name           string
				from, distinct int
			}{{"all", 0, 1_000_000}, {"others", DefaultMaxOverrides, 900_000}} {
				b.Run(fmt.Sprintf("address=%t/%s/%d", byAddress, whose.name, overrides), func(b *testing.B) {
					b.ReportAllocs()
					var s Scratch
					i := 0
					for b.Loop() {
						i++
						client := whose.from + i*7919%whose.distinct // no order in which they come
						r.Client = spread(client)
						if !byAddress {
							f.header[0] = strconv.AppendInt(append(f.header[0][:0], "user-"...), int64(client), 10)
						}
						e.Decide(ctx, r, &s)
					}
				})
			}
		}
	}
}

// Parts of a key that run together in another way are another client's.
func TestOverridesAreFramed(t *testing.T) {
	t.Parallel()
	rule := RuleSpec{Limit: ruleOf("a", 2), Key: key(byMethod, byHeader), Overrides: []Override{{Key: []string{"GET", "/x"}, Unlimited: true}, {Key: []string{"GET", "a\tb"}, Unlimited: true}}}
	e := mustEngine(t, Settings{Rules: []RuleSpec{rule}})
	for _, c := range []struct {
		method, header string
		want           int
	}{
		{"GET", "/x", 10},
		{"GET/", "x", 2},
		{"GET", "a\tb", 10},
		{"GET\ta", "b", 2}, // whatever byte were to part them
	} {
		r := Request{Method: []byte(c.method), Fields: &constFields{header: instances(c.header)}}
		if got, _ := admits(e, &r); got != c.want {
			t.Errorf("%q %q: %d admitted, want %d", c.method, c.header, got, c.want)
		}
	}
}

// The memory of a tier is planned for the clients that its overrides name. 0 means that there are too many to say.
func TestClientsOfTiers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		limit fastlimit.RuleConfig
		key   []KeyPart
		names []string
		want  int
	}{
		{ruleOf("a", 2), key(byIP), []string{"192.0.2.9"}, 1},
		{ruleOf("a", 2), key(byIP), []string{"192.0.2.0/24", "198.51.100.0/28"}, 256 + 16},
		{ruleOf("a", 2), key(byIP), []string{"2001:db8::/48", "2001:db8:1:2::/64"}, 1<<16 + 1},
		{fastlimit.RuleConfig{Name: "a", Rate: fastlimit.Rate{N: 1, Per: time.Hour}, Burst: 2, IPv4Prefix: 24}, key(byIP), []string{"192.0.0.0/22"}, 4},
		{ruleOf("a", 2), key(byIP), []string{"10.0.0.0/8"}, 1 << 24},
		{ruleOf("a", 2), key(byIP), []string{"10.0.0.0/7", "192.0.2.9"}, 0},
		{ruleOf("a", 2), key(byHeader), []string{"key1", "key2"}, 2},
	} {
		spec := RuleSpec{Limit: tt.limit, Key: tt.key}
		for _, name := range tt.names {
			spec.Overrides = append(spec.Overrides, Override{Key: []string{name}, Burst: 5})
		}
		if tiers, of := spec.Tiers(); len(tiers) != 1 || tiers[0].Clients != tt.want || len(of) != len(tt.names) {
			t.Errorf("%v: %+v, %v; want %d clients", tt.names, tiers, of, tt.want)
		}
	}
}
