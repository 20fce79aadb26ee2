package suggest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/config"
	"github.com/fastlimit/fastlimit/internal/replay"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/policy"
	"pgregory.net/rapid"
)

const (
	wholeSeconds = "02/Jan/2006:15:04:05 -0700"
	fractions    = "02/Jan/2006:15:04:05.000 -0700"
)

// hit is a request of a made-up log.
type hit struct {
	at     time.Duration
	client netip.Addr
	path   string
}

var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// logOf writes lines in the order in which requests end, up to a minute late.
func logOf(hits []hit, layout string) string {
	rnd := rand.New(rand.NewPCG(3, 3))
	type line struct {
		end  time.Duration
		text string
	}
	var lines []line
	for _, h := range hits {
		late := time.Duration(0)
		if rnd.IntN(3) == 0 {
			late = time.Duration(rnd.Int64N(int64(time.Minute)))
		}
		lines = append(lines, line{h.at + late, fmt.Sprintf("%v - - [%s] \"GET %s?x HTTP/1.1\" 200 5 \"-\" \"agent\"\n", h.client, start.Add(h.at).Format(layout), h.path)})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.end, b.end) })
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.text)
	}
	return b.String()
}

func clientAddr(i int) netip.Addr {
	if i%3 == 0 {
		a := netip.MustParseAddr("2001:db8::").As16()
		a[6], a[7], a[15] = byte(i>>8), byte(i), byte(i%7)
		return netip.AddrFrom16(a)
	}
	return netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)})
}

func attackerAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{203, 0, 113, byte(i)}) }

// underAttack is a day of visitors who load pages, each page some files at once, and one
// attacker in a hundred: floods, slow crawls at a few per second, and thousands at once.
func underAttack(visitors int) (hits []hit, attackers []string) {
	rnd := rand.New(rand.NewPCG(14, 5))
	day := 24 * time.Hour
	for i := range visitors {
		for range 1 + rnd.IntN(12) {
			at := time.Duration(rnd.Int64N(int64(day - time.Minute)))
			for f := range 1 + rnd.IntN(25) {
				hits = append(hits, hit{at + time.Duration(rnd.IntN(3000))*time.Millisecond, clientAddr(i), fmt.Sprintf("/page/%d", f)})
			}
		}
	}
	for i := range visitors / 99 {
		attackers = append(attackers, attackerAddr(i).String())
		at := time.Duration(rnd.Int64N(int64(day / 2)))
		switch i % 3 {
		case 0: // a flood
			for range 2000 {
				at += time.Duration(rnd.IntN(100)) * time.Millisecond
				hits = append(hits, hit{at, attackerAddr(i), "/"})
			}
		case 1: // all at once
			for range 1500 {
				hits = append(hits, hit{at, attackerAddr(i), "/search"})
			}
		default: // a password guesser that takes its time
			for range 3000 {
				at += 500 * time.Millisecond
				hits = append(hits, hit{at, attackerAddr(i), "/login"})
			}
		}
	}
	return hits, attackers
}

func mustKey(t testing.TB, key string, paths ...string) policy.RuleSpec {
	t.Helper()
	spec, err := config.ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	spec.Match.Paths = paths
	return spec
}

func suggestFor(t testing.TB, log string, c Config) *Report {
	t.Helper()
	c.Spare = cmp.Or(c.Spare, 999*percent/10)
	r, err := Run(t.Context(), []replay.Log{{Reader: strings.NewReader(log)}}, c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// replayed judges a log by the text of a configuration.
func replayed(t testing.TB, log, text string) *replay.Report {
	t.Helper()
	cfg, err := config.Parse("suggested", []byte(text), nil)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	lc := cfg.Limiter()
	lc.Memory = 8 << 20 // there are few clients, and many replays
	r, err := replay.Run(t.Context(), []replay.Log{{Reader: strings.NewReader(log)}}, replay.Config{Limiter: lc, Policy: cfg.Policy})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// enforced is the suggested rule of one key alone, enforced.
func (r *Report) enforced(i int) string {
	alone := Report{Spare: r.Spare, Keys: r.Keys[i : i+1]}
	return strings.ReplaceAll(alone.config(), "mode: shadow", "mode: enforce")
}

// check replays the rules over the log that they were made of: the paste in shadow mode
// denies nobody, and each rule alone, enforced, denies no more clients and requests than
// was said. It returns who was denied, for each key.
func (r *Report) check(t testing.TB, log string) (denied []map[string]bool) {
	t.Helper()
	if r.Config == "" {
		return nil
	}
	pasted := replayed(t, log, r.Config)
	if pasted.Denied != 0 || pasted.Requests != r.Requests {
		t.Errorf("in shadow mode %d of %d requests are denied", pasted.Denied, pasted.Requests)
	}
	for i := range r.Keys {
		k := &r.Keys[i]
		denied = append(denied, map[string]bool{})
		if len(k.Rows) == 0 {
			continue
		}
		row := &k.Rows[k.chosen]
		got := replayed(t, log, r.enforced(i))
		for _, c := range got.Clients {
			denied[i][c.Key] = true
		}
		if len(got.Clients) > row.ClientsShed || uint64(got.Denied) > row.RequestsShed || got.FalseDenials != 0 {
			t.Errorf("%s: %d clients and %d requests are denied, %d and %d were said", k.Rule, len(got.Clients), got.Denied, row.ClientsShed, row.RequestsShed)
		}
		// The oracle of replay shares no code with this package.
		if exact := got.Rules[0].ExactDenied; uint64(exact) != row.RequestsShed {
			t.Errorf("%s: exact buckets deny %d requests, %d were said", k.Rule, exact, row.RequestsShed)
		}
		for _, a := range k.Attackers {
			if !denied[i][a.Key] {
				t.Errorf("%s: the attacker %v is not denied", k.Rule, a.Key)
			}
		}
	}
	return denied
}

// Of a log with 1 % attackers all of them are named and denied by the rule that is
// suggested, and of the others no more than one in a thousand.
func TestUnderAttack(t *testing.T) {
	t.Parallel()
	hits, attackers := underAttack(1000)
	for layout, spare := range map[string]Percent{wholeSeconds: 999 * percent / 10, fractions: hundred} {
		log := logOf(hits, layout)
		r := suggestFor(t, log, Config{Keys: []policy.RuleSpec{mustKey(t, "ip"), mustKey(t, "ip/24/48"), mustKey(t, "ip", "/login"), mustKey(t, "ip,path")}, Spare: spare})
		if r.WholeSeconds != (layout == wholeSeconds) {
			t.Errorf("whole seconds %v", r.WholeSeconds)
		}
		denied := r.check(t, log)
		k := &r.Keys[0]
		var named []string
		for _, a := range k.Attackers {
			named = append(named, a.Key)
		}
		slices.Sort(named)
		slices.Sort(attackers)
		if !slices.Equal(named, attackers) {
			t.Errorf("named %v, want %v", named, attackers)
		}
		if others := len(denied[0]) - len(attackers); others < 0 || others > 2 || spare == hundred && others != 0 {
			t.Errorf("spare %v: %d others denied", spare, others)
		}
		// All attackers are in one /24, which is denied too.
		if !denied[1]["203.0.113.0/24"] {
			t.Error("the prefix of the attackers is not denied")
		}
	}
}

// Whatever the log, the rules that are printed are valid, do what was said, and spare as
// many clients as was asked for.
func TestRulesDoWhatTheySay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var hits []hit
		for client := range rapid.IntRange(1, testkit.Size(12, 30)).Draw(rt, "clients") {
			at := time.Duration(rapid.Int64Range(0, 100_000).Draw(rt, "at")) * time.Second
			for range rapid.IntRange(1, 3).Draw(rt, "visits") {
				gap := time.Duration(rapid.SampledFrom([]int64{0, 1, 300, 1000, 60_000}).Draw(rt, "gap")) * time.Millisecond
				for range rapid.SampledFrom([]int{1, 2, 10, 60, testkit.Size(100, 300)}).Draw(rt, "requests") {
					hits = append(hits, hit{at, clientAddr(client), rapid.SampledFrom([]string{"/", "/a"}).Draw(rt, "path")})
					at += gap
				}
			}
		}
		spare := rapid.SampledFrom([]Percent{50 * percent, 90 * percent, 999 * percent / 10, hundred}).Draw(rt, "spare")
		log := logOf(hits, rapid.SampledFrom([]string{wholeSeconds, fractions}).Draw(rt, "layout"))
		r := suggestFor(t, log, Config{Keys: []policy.RuleSpec{mustKey(t, "ip"), mustKey(t, "path"), mustKey(t, "ip", "/a"), mustKey(t, "global")}, Spare: spare})
		r.check(t, log)
		for _, k := range r.Keys {
			for i, row := range k.Rows {
				if spared := k.Clients - row.ClientsShed; spared < spare.of(k.Clients-row.Attackers) {
					rt.Fatalf("%s at %s: %d of %d clients spared", k.Rule, row.Rate, spared, k.Clients)
				}
				if row.ClientsShed < row.Attackers || row.Needed > row.Burst || row.Max < row.P50 {
					rt.Fatalf("%s: %+v", k.Rule, row)
				}
				if i > 0 && row.Max > k.Rows[i-1].Max {
					rt.Fatalf("%s: %s needs more than a slower rate", k.Rule, row.Rate)
				}
			}
		}
		if t.Failed() {
			rt.FailNow()
		}
	})
}

// Rules of any key and path come back from the file as they were meant.
func TestConfigRoundTrip(t *testing.T) {
	t.Parallel()
	long := "/" + strings.Repeat("long", 30)
	log := logOf([]hit{{0, clientAddr(1), "/a%22b"}, {time.Second, clientAddr(2), "/${x}y"}, {time.Second, clientAddr(2), long}}, wholeSeconds)
	specs := []policy.RuleSpec{
		mustKey(t, "ip"), mustKey(t, "ip"), mustKey(t, "ip/24/48,path"), mustKey(t, "header:User-Agent"), mustKey(t, "global"), mustKey(t, "host,method"),
		mustKey(t, "ip", `/a"b`), mustKey(t, "ip", "/*"), mustKey(t, "path", "/${x}*"), mustKey(t, "path", long+"*"), mustKey(t, "path", long), mustKey(t, "method", "*"),
	}
	r := suggestFor(t, log, Config{Keys: specs})
	cfg, err := config.Parse("suggested", []byte(r.Config), nil)
	if err != nil {
		t.Fatalf("%v in\n%s", err, r.Config)
	}
	if _, err := fastlimit.NewPlan(cfg.Limiter()); err != nil {
		t.Error(err)
	}
	var got, want []string
	for _, s := range cfg.Policy.Rules {
		got = append(got, fmt.Sprintf("%v %v %d %d", s.Key, s.Match.Paths, s.Limit.IPv4Prefix, s.Limit.IPv6Prefix))
		if s.Limit.Mode != fastlimit.Shadow {
			t.Errorf("%s is enforced", s.Limit.Name)
		}
	}
	for i, s := range specs {
		if len(r.Keys[i].Rows) > 0 {
			want = append(want, fmt.Sprintf("%v %v %d %d", s.Key, s.Match.Paths, s.Limit.IPv4Prefix, s.Limit.IPv6Prefix))
		}
	}
	if !slices.Equal(got, want) || len(want) != 11 {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}
