package policy

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
)

func benchRule(name string, parts []KeyPart, m Match) RuleSpec {
	rate := fastlimit.Rate{N: 100, Per: time.Second}
	return RuleSpec{Limit: fastlimit.RuleConfig{Name: name, Rate: rate, Burst: 200}, Key: parts, Match: m}
}

func BenchmarkDecide(b *testing.B) {
	perIP := benchRule("per-ip", key(byIP), Match{})
	login := benchRule("login", key(byIP, byPath), Match{Paths: []string{"/login"}, Methods: []string{"GET"}})
	api := benchRule("api", key(byHeader), Match{Hosts: []string{"*.com"}})
	glob := benchRule("glob", key(byIP), Match{Paths: []string{"/api/*", "/*/edit", "*.php", "/lo*n"}})
	for _, bc := range []struct {
		name     string
		settings Settings
	}{
		{"one_ip_rule", Settings{Rules: []RuleSpec{perIP}}},
		{"one_ip_rule_and_lists", Settings{Rules: []RuleSpec{perIP}, Allow: prefixes("127.0.0.0/8"), Deny: prefixes("192.0.2.0/24")}},
		{"path_patterns", Settings{Rules: []RuleSpec{glob}}},
		{"three_rules", Settings{Rules: []RuleSpec{perIP, login, api}}},
	} {
		e := mustEngine(b, bc.settings)
		r, ctx := liveRequest("192.0.3.1"), b.Context()
		b.Run(bc.name+"/clients", func(b *testing.B) {
			b.ReportAllocs()
			var s Scratch
			var i uint32
			for b.Loop() {
				i++
				r.Client = v4(i & (1<<16 - 1))
				e.Decide(ctx, r, &s)
			}
		})
		b.Run(bc.name+"/denied", func(b *testing.B) {
			b.ReportAllocs()
			var s Scratch
			r.Client = v4(1 << 30)
			for range 1000 {
				e.Decide(ctx, r, &s)
			}
			for b.Loop() {
				e.Decide(ctx, r, &s)
			}
		})
	}
}

func v4(i uint32) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], i)
	return netip.AddrFrom4(b)
}

func BenchmarkAppendPath(b *testing.B) {
	buf := make([]byte, 0, 256)
	for name, target := range map[string]string{"plain": "/static/css/site.css?v=12", "escapes": "/a/%6c%6Fgin/../b//c%2fd"} {
		raw := []byte(target)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				AppendPath(buf, raw)
			}
		})
	}
}

func BenchmarkClient(b *testing.B) {
	id := mustIdentity(b, "", "10.0.0.0/8")
	for _, bc := range []struct{ name, peer string }{{"untrusted", "192.0.2.1"}, {"trusted", "10.0.0.1"}} {
		peer, values := netip.MustParseAddr(bc.peer), instances("198.51.100.1, 10.0.0.2")
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				id.Client(peer, values)
			}
		})
	}
}
