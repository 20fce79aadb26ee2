package fastlimit_test

import (
	"bytes"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
)

// world is a limiter of three rules, and the events that it reports.
type world struct {
	*fastlimit.Limiter
	*testing.T

	clock         *fastlimit.ManualClock
	begun, ended  []fastlimit.Ban
	strict, plain *fastlimit.Rule
	banning       *fastlimit.Rule
}

var client = netip.MustParseAddr("192.0.2.7")

func config(w *world) fastlimit.Config {
	rate := fastlimit.Rate{N: 1, Per: time.Minute}
	return fastlimit.Config{
		Clock: w.clock, TopTalkers: 8, Memory: 4 << 20, Secret: [32]byte{1},
		Rules: []fastlimit.RuleConfig{
			{Name: "strict", Rate: rate, Burst: 10, Strict: true, Tiers: []fastlimit.Tier{{Rate: rate, Burst: 3}}, MaxRate: fastlimit.Rate{N: 100, Per: time.Minute}},
			{Name: "plain", Rate: rate, Burst: 8, Cost: 2},
			{Name: "banning", Rate: rate, Burst: 1, Strict: true, Ban: fastlimit.BanPolicy{After: 2, Within: time.Minute, For: time.Hour, Max: time.Hour}},
		},
		OnBan:   func(b fastlimit.Ban) { w.begun = append(w.begun, b) },
		OnUnban: func(b fastlimit.Ban) { w.ended = append(w.ended, b) },
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, clock: new(fastlimit.ManualClock)}
	lim, err := fastlimit.New(config(w))
	if err != nil {
		t.Fatal(err)
	}
	w.Limiter = lim
	rules := lim.Rules()
	w.strict, w.plain, w.banning = rules[0], rules[1], rules[2]
	w.clock.Set(time.Hour)
	return w
}

func (w *world) remains(what string, r *fastlimit.Rule, want int64) {
	w.Helper()
	if d := r.Peek(r.AddrKey(client), 1); d.Remaining != want {
		w.Errorf("%s: %d remain, want %d", what, d.Remaining, want)
	}
}

func TestRuleMethods(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), t.Context()
	r := w.strict
	key := r.AddrKey(client)
	r.Take(ctx, key, 4)
	w.remains("a take of 4", r, 6)
	if d, taken := r.TakeUpTo(ctx, key, 20); taken != 6 || !d.Allowed {
		t.Errorf("%d were left to take: %+v", taken, d)
	}
	if d := r.Wait(ctx, key, 1); d.Allowed || r.Allow(key) {
		t.Errorf("the bucket is full, and admits: %+v", d)
	}
	r.Refund(key, 3)
	w.remains("a refund of 3", r, 3)
	if more := r.Settle(ctx, key, 1, 3, w.Now()); more != 2 {
		t.Errorf("settled for %d more, want 2", more)
	}
	r.Settle(ctx, key, 3, 1, w.Now())
	w.remains("a settlement of two more and two less", r, 3)
	r.Reset(key)
	if d := r.Peek(key, 10); !d.Allowed {
		t.Errorf("after a reset: %+v", d)
	}
	r.Tier(0).Take(ctx, key, 3)
	if tier := r.Tier(0); tier.Allow(key) || tier.Config().Burst != 3 || !r.Allow(key) {
		t.Error("the tier has not its own limit")
	}
	if fast := r.AtRate(fastlimit.Rate{N: 50, Per: time.Minute}); fast.Config().Rate.N != 50 {
		t.Errorf("a rate of %v", fast.Config().Rate)
	}
	if s := r.Stats(); s.Denied[fastlimit.StageTable] == 0 || s.Allowed[fastlimit.StageExact] == 0 {
		t.Errorf("%+v", s)
	}
	if top := r.TopTalkers(); top.Rule != "strict" || top.Table == nil {
		t.Errorf("top talkers of %q", top.Rule)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	part := []byte("a b")
	key := w.plain.BytesKey(part, []byte("c"))
	kept := key.Clone()
	part[0] = 'x'
	if got := string(w.plain.AppendKey([]byte("key "), kept)); got != `key "a b" c` {
		t.Errorf("a clone reads %s", got)
	}
	if kept.Digest() != key.Digest() || w.plain.BytesKey(part, []byte("c")).Digest() == key.Digest() {
		t.Error("digests do not tell clients apart")
	}
}

// TestTakeAll uses charges whose rules, keys and costs differ, which the engine reads in
// place.
func TestTakeAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	charges := []fastlimit.Charge{
		{Rule: w.plain, Key: w.plain.BytesKey([]byte("token"), []byte("GET")), Cost: 2},
		{Rule: w.strict, Key: w.strict.AddrKey(client), Cost: 3},
	}
	if d, by := w.TakeAll(t.Context(), charges); !d.Allowed || by != 1 {
		t.Errorf("%+v by %d", d, by)
	}
	w.remains("what both admit", w.strict, 7)
	if d, by := w.WaitAll(t.Context(), charges); !d.Allowed || by != 1 {
		t.Errorf("%+v by %d", d, by)
	}
	charges[1].Cost = 5
	if d, by := w.TakeAll(t.Context(), charges); d.Allowed || by != 1 {
		t.Errorf("%+v by %d", d, by)
	}
	w.remains("what one denies", w.strict, 4)
	if d, by := w.TakeAll(t.Context(), nil); !d.Allowed || by != -1 {
		t.Errorf("no charges: %+v by %d", d, by)
	}
}

func TestBans(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.banning.AddrKey(client)
	for range 3 {
		w.banning.Allow(key)
	}
	bans := slices.Collect(w.banning.Bans())
	want := fastlimit.Ban{Rule: w.banning, Key: "192.0.2.7", Name: "4\xc0\x00\x02\x07", Digest: key.Digest(), Left: time.Hour, Own: time.Hour, Times: 1}
	if len(bans) != 1 || len(w.begun) != 1 || bans[0] != want || w.begun[0] != want {
		t.Fatalf("bans %+v, told %+v, want %+v", bans, w.begun, want)
	}
	if p, ok := bans[0].Prefix(); !ok || p != netip.PrefixFrom(client, 32) || bans[0].Remote() {
		t.Errorf("prefix %v, remote %v", p, bans[0].Remote())
	}
	if !w.banning.Unban(key) || w.banning.Unban(key) || len(w.ended) != 1 || w.ended[0].Digest != key.Digest() {
		t.Errorf("ended: %+v", w.ended)
	}
	for range w.banning.Bans() {
		t.Error("still banned")
	}
}

// TestState simulates a restart, and a change of the configuration.
func TestState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.strict.Take(t.Context(), w.strict.AddrKey(client), 6)
	var file bytes.Buffer
	if err := w.Save(&file); err != nil {
		t.Fatal(err)
	}
	loaded, err := fastlimit.Load(bytes.NewReader(file.Bytes()), fastlimit.LoadOptions{Clock: new(fastlimit.ManualClock)})
	if err != nil || loaded.Now() != w.Now() {
		t.Fatalf("at %v, saved at %v: %v", loaded.Now(), w.Now(), err)
	}
	next, err := loaded.With(config(&world{}))
	if err != nil {
		t.Fatal(err)
	}
	r, ok := next.Rule("strict")
	if _, unknown := next.Rule("other"); !ok || unknown {
		t.Fatal("rules are not found by their names")
	}
	w.remains("after a restart", r, 4)
	empty := newWorld(t)
	if err := empty.Merge(loaded); err != nil {
		t.Fatal(err)
	}
	w.remains("after a merge", empty.strict, 4)
	if _, err := fastlimit.Load(strings.NewReader("no state"), fastlimit.LoadOptions{}); !errors.Is(err, fastlimit.ErrState) {
		t.Errorf("no state: %v", err)
	}
	if _, err := fastlimit.Load(&file, fastlimit.LoadOptions{Clock: new(fastlimit.ManualClock), Memory: 1 << 10}); !errors.Is(err, fastlimit.ErrState) {
		t.Errorf("too large: %v", err)
	}
}

func TestLimiterMethods(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plan, err := fastlimit.NewPlan(config(w))
	if err != nil || plan.Memory != w.Plan().Memory || len(plan.Rules) != 3 {
		t.Errorf("planned %+v: %v", plan, err)
	}
	if _, err := fastlimit.NewPlan(fastlimit.Config{}); err == nil {
		t.Error("the zero Config has a plan")
	}
	if w.LastTime() < 4*365*24*time.Hour || w.Now() != w.clock.Now() {
		t.Errorf("ends at %v, is at %v", w.LastTime(), w.Now())
	}
	for i := range 5 {
		w.plain.Allow(w.plain.BytesKey([]byte{byte(i)}))
	}
	if n := w.FirstSeenClients(); n < 4 || n > 6 {
		t.Errorf("%d clients, want 5", n)
	}
	w.clock.SetStart(time.Unix(1e9, 0))
	w.Advance()
	w.StopWaiting()
}
