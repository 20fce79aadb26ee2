package policy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"pgregory.net/rapid"
)

func TestParseBan(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"192.0.2.7":               "192.0.2.7/32",
		"192.0.2.0/24":            "192.0.2.0/24",
		"10.0.0.0/8":              "10.0.0.0/8",
		"::ffff:192.0.2.7":        "192.0.2.7/32",
		"::ffff:192.0.2.0/120":    "192.0.2.0/24",
		"2001:db8::1":             "2001:db8::1/128",
		"2001:db8::/48":           "2001:db8::/48",
		"2001::/16":               "2001::/16",
		"192.0.2.7/24":            "write 192.0.2.0/24, or 192.0.2.7 for the address alone",
		"2001:db8::1/64":          "write 2001:db8::/64, or 2001:db8::1 for the address alone",
		"::ffff:192.0.2.7/120":    "write 192.0.2.0/24, or 192.0.2.7 for the address alone",
		"0.0.0.0/0":               "shorter than a /8",
		"10.0.0.0/7":              "shorter than a /8",
		"::/0":                    "shorter than a /16",
		"2000::/3":                "shorter than a /16",
		"::ffff:0.0.0.0/96":       "shorter than a /8",
		"::ffff:0.0.0.0/95":       "write the IPv4 prefix",
		"fe80::1%eth0":            "write fe80::1",
		"":                        "neither an address nor a prefix",
		"example.com":             "neither an address nor a prefix",
		"192.0.2.0/33":            "neither an address nor a prefix",
		"192.0.2.0/024":           "neither an address nor a prefix",
		"192.0.02.1":              "neither an address nor a prefix",
		"192.0.2.7\n":             `"192.0.2.7\n" is neither`,
		"\x1b[2J":                 `"\x1b[2J" is neither`,
		strings.Repeat("1", 4096): "neither an address nor a prefix",
	} {
		p, err := ParseBan(text)
		if err == nil {
			if p.String() != want {
				t.Errorf("%q: %v, want %s", text, p, want)
			}
			continue
		}
		e, ok := errors.AsType[*fastlimit.FieldError](err)
		if !ok || !strings.Contains(e.Problem+"; "+e.Fix, want) || len(e.Problem) > 200 {
			t.Errorf("%.80q: %v, want %s", text, err, want)
		}
	}
}

// The longest prefix of all decides: a ban before an equal entry of a list, a list before a
// shorter ban. A ban that has ended is as if it were not there, for shorter ones too.
func TestBans(t *testing.T) {
	t.Parallel()
	e := runningEngine(t, Settings{
		Rules: []RuleSpec{{Limit: ruleOf("per-ip", 1), Key: key(byIP)}},
		Allow: prefixes("192.0.2.7/32", "198.51.100.0/24", "203.0.0.0/8"),
		Deny:  prefixes("192.0.2.8/32", "198.51.101.0/24", "2001:db8::/32"),
	})
	begin := time.Now()
	var b *Bans
	for text, length := range map[string]time.Duration{
		"192.0.2.0/24": time.Hour, "198.51.100.0/24": time.Hour, "198.51.101.0/24": time.Hour, "203.0.113.0/24": time.Hour,
		"10.0.0.0/8": time.Hour, "10.1.0.0/16": 2 * time.Hour, "10.1.2.0/24": time.Minute, "10.1.2.3/32": time.Second, "2001:db8:1::/48": time.Hour,
	} {
		b = b.With(mustBan(t, text), begin.Add(length))
	}
	e = e.WithBans(b)
	for _, c := range []struct {
		client string
		after  time.Duration
		list   ListVerdict
		left   time.Duration
	}{
		{"192.0.2.1", 0, ListBan, time.Hour},
		{"192.0.2.1", time.Hour - 1, ListBan, 1},
		{"192.0.2.1", time.Hour, ListNone, 0},
		{"192.0.2.7", 0, ListAllow, 0},
		{"192.0.2.8", 0, ListDeny, 0},
		{"198.51.100.1", 0, ListBan, time.Hour},
		{"198.51.100.1", time.Hour, ListAllow, 0},
		{"198.51.101.1", 0, ListBan, time.Hour},
		{"198.51.101.1", time.Hour, ListDeny, 0},
		{"203.0.113.1", 0, ListBan, time.Hour},
		{"203.0.112.1", 0, ListAllow, 0},
		{"10.1.2.3", 0, ListBan, time.Second},
		{"10.1.2.3", time.Second, ListBan, time.Minute - time.Second},
		{"10.1.2.3", time.Minute, ListBan, 119 * time.Minute},
		{"10.1.2.3", 2 * time.Hour, ListNone, 0},
		{"10.2.0.1", 0, ListBan, time.Hour},
		{"11.0.0.1", 0, ListNone, 0},
		{"::ffff:192.0.2.1", 0, ListBan, time.Hour},
		{"2001:db8:1::1%eth0", 0, ListBan, time.Hour},
		{"2001:db8:2::1", 0, ListDeny, 0},
	} {
		var s Scratch
		v := e.DecideAt(t.Context(), sampleRequest(c.client), &s, begin.Add(c.after))
		if v.List != c.list || v.Decision.RetryAfter != c.left {
			t.Errorf("%s after %v: list %v for %v, want %v for %v", c.client, c.after, v.List, v.Decision.RetryAfter, c.list, c.left)
		}
		if d := v.Decision; c.list == ListBan && (d.Allowed || d.Stage != fastlimit.StageBan || v.Rule != nil || d.Remaining != 0 || d.TimeToEmpty != c.left || len(s.Applied()) != 0) {
			t.Errorf("%s: %+v", c.client, v)
		}
	}
	if v := e.DecideAt(t.Context(), &Request{}, new(Scratch), begin); v.List != ListNone {
		t.Errorf("no client: list verdict %d", v.List)
	}
}

// Every way to ask for a decision knows the bans, and none of them charges a banned client.
func TestAllWaysKnowBans(t *testing.T) {
	t.Parallel()
	waiting := ruleOf("per-ip", 1)
	waiting.MaxWait = time.Second
	e := runningEngine(t, Settings{Rules: []RuleSpec{{Limit: waiting, Key: key(byIP)}}})
	banned := e.WithBans((*Bans)(nil).With(mustBan(t, "192.0.2.0/24"), time.Now().Add(time.Hour)))
	r, now := sampleRequest("192.0.2.1"), time.Now()
	for name, ask := range map[string]func(*Scratch) Verdict{
		"Decide":   func(s *Scratch) Verdict { return banned.Decide(t.Context(), r, s) },
		"DecideAt": func(s *Scratch) Verdict { return banned.DecideAt(t.Context(), r, s, now) },
		"Wait":     func(s *Scratch) Verdict { return banned.Wait(t.Context(), r, s) },
		"WaitFor":  func(s *Scratch) Verdict { return banned.WaitFor(nil, r, s, now) },
	} {
		for range 3 {
			if v := ask(new(Scratch)); v.List != ListBan || v.Decision.Allowed || v.Decision.RetryAfter <= 59*time.Minute || v.Decision.RetryAfter > time.Hour {
				t.Errorf("%s: %+v", name, v)
			}
		}
	}
	if all := banned.Applying(r, new(Scratch)); len(all) != 0 {
		t.Errorf("%d rules would apply", len(all))
	}
	for _, rule := range e.lim.Rules() {
		if st := rule.Stats(); st.Allowed != (fastlimit.RuleStats{}).Allowed || st.Denied != (fastlimit.RuleStats{}).Denied {
			t.Errorf("a banned client was charged: %+v", st)
		}
	}
	if v := e.Decide(t.Context(), r, new(Scratch)); !v.Decision.Allowed {
		t.Errorf("the engine before has changed: %+v", v)
	}
}

// model is bans as anybody would write them: a map, and a look at all of it.
type model map[netip.Prefix]time.Time

func (m model) lookup(addr netip.Addr, now time.Time) (longest netip.Prefix, ok bool) {
	for p, until := range m {
		if p.Contains(addr) && until.After(now) && (!ok || p.Bits() > longest.Bits()) {
			longest, ok = p, true
		}
	}
	return longest, ok
}

// Whatever was banned and unbanned, all states that have been are what the model was then:
// a change touches none of those before.
func TestBansAgainstModel(t *testing.T) {
	t.Parallel()
	prefix := rapid.Custom(func(t *rapid.T) netip.Prefix {
		if rapid.Bool().Draw(t, "v6") {
			b := [16]byte{0x20, 0x01, rapid.Byte().Draw(t, "a") & 1, 7: rapid.Byte().Draw(t, "b") & 3, 15: rapid.Byte().Draw(t, "c") & 3}
			return netip.PrefixFrom(netip.AddrFrom16(b), rapid.SampledFrom([]int{16, 24, 48, 62, 64, 126, 127, 128}).Draw(t, "bits")).Masked()
		}
		b := [4]byte{10, rapid.Byte().Draw(t, "b") & 1, rapid.Byte().Draw(t, "c") & 3, rapid.Byte().Draw(t, "d") & 3}
		return netip.PrefixFrom(netip.AddrFrom4(b), rapid.SampledFrom([]int{8, 15, 16, 22, 23, 24, 30, 32}).Draw(t, "bits")).Masked()
	})
	begin := time.Now()
	rapid.Check(t, func(t *rapid.T) {
		type state struct {
			bans  *Bans
			model model
		}
		now := state{nil, model{}}
		all := []state{now}
		for range rapid.IntRange(0, 12).Draw(t, "changes") {
			p, until := prefix.Draw(t, "prefix"), begin.Add(time.Duration(rapid.IntRange(0, 4).Draw(t, "until")))
			next := state{model: model{}}
			maps.Copy(next.model, now.model)
			if rapid.IntRange(0, 3).Draw(t, "unban") == 0 {
				delete(next.model, p)
				next.bans = now.bans.Without(p)
			} else {
				next.model[p] = until
				next.bans = now.bans.With(p, until)
			}
			all, now = append(all, next), next
		}
		for range 8 {
			addr, at := prefix.Draw(t, "client").Addr(), begin.Add(time.Duration(rapid.IntRange(-1, 5).Draw(t, "at")))
			for i, s := range all {
				want, banned := s.model.lookup(addr, at)
				p, until, ok := s.bans.Lookup(addr, at)
				if ok != banned || ok && (p != want || !until.Equal(s.model[want])) || s.bans.Len() != len(s.model) || (len(s.model) == 0) != (s.bans == nil) {
					t.Fatalf("state %d: %v at %v is banned by %v until %v (%v), want %v (%v) of %v", i, addr, at.Sub(begin), p, until, ok, want, banned, s.model)
				}
			}
		}
	})
}

func TestAllowedWithin(t *testing.T) {
	t.Parallel()
	l, err := NewLists(prefixes("192.0.2.7/32", "192.0.2.64/26", "192.0.2.0/24", "192.0.0.0/16", "192.0.3.0/24", "2001:db8::/64"), prefixes("192.0.2.9/32"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		within string
		most   int
		want   string
	}{
		{"192.0.2.0/24", 9, "[192.0.2.7/32 192.0.2.64/26] 2"},
		{"192.0.2.0/24", 1, "[192.0.2.7/32] 2"},
		{"192.0.2.0/25", 9, "[192.0.2.7/32 192.0.2.64/26] 2"},
		{"192.0.2.7/32", 9, "[] 0"},
		{"192.0.0.0/8", 9, "[192.0.0.0/16 192.0.2.0/24 192.0.2.7/32 192.0.2.64/26 192.0.3.0/24] 5"},
		{"2001:db8::/48", 9, "[2001:db8::/64] 1"},
	} {
		some, n := l.AllowedWithin(netip.MustParsePrefix(c.within), c.most)
		if got := fmt.Sprint(some, n); got != c.want {
			t.Errorf("%s: %s, want %s", c.within, got, c.want)
		}
	}
	if some, n := (*Lists)(nil).AllowedWithin(netip.MustParsePrefix("10.0.0.0/8"), 9); some != nil || n != 0 {
		t.Errorf("of no lists: %v %d", some, n)
	}
}

// One goroutine bans and unbans, others decide: a client that is banned in every state is
// always denied, and one that is banned in none never. Under -race.
func TestBansWhileDeciding(t *testing.T) {
	t.Parallel()
	e := mustEngine(t, Settings{Rules: []RuleSpec{{Limit: ruleOf("per-ip", 1_000_000), Key: key(byIP)}}})
	end := time.Now().Add(time.Hour)
	b := (*Bans)(nil).With(mustBan(t, "192.0.2.0/24"), end)
	states := make(chan *Bans, 4)
	var done sync.WaitGroup
	for range 4 {
		done.Go(func() {
			var s Scratch
			for b := range states {
				e := e.WithBans(b)
				if v := e.Decide(context.Background(), sampleRequest("192.0.2.1"), &s); v.List != ListBan {
					t.Errorf("banned: %+v", v)
				}
				if v := e.Decide(context.Background(), sampleRequest("198.51.100.1"), &s); v.List != ListNone {
					t.Errorf("not banned: %+v", v)
				}
			}
		})
	}
	for i := range 2000 {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 32)
		if b = b.With(p, end); i%3 == 0 {
			b = b.Without(p)
		}
		states <- b
	}
	close(states)
	done.Wait()
}

func mustBan(t testing.TB, text string) netip.Prefix {
	t.Helper()
	p, err := ParseBan(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
