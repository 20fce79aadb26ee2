package decide

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/conn"
)

// alive is a service whose snapshots get live overrides, on one listener that always shows
// limits.
type alive struct {
	*testing.T
	*Service
	settings policy.Settings
	file     *policy.Engine // with the overrides of the settings alone
	base     *fastlimit.Rule
}

// newAlive serves 1 per hour and burst 2 per address; 10.0.0.1 and 10.0.0.4 have burst 3
// and 4 in the settings.
func newAlive(t *testing.T) *alive {
	t.Helper()
	a := &alive{T: t, settings: policy.Settings{Rules: []policy.RuleSpec{{
		Limit:     fastlimit.RuleConfig{Name: "per-ip", Rate: fastlimit.Rate{N: 1, Per: time.Hour}, Burst: 2, Strict: true},
		Key:       []policy.KeyPart{{Kind: policy.KeyIP}},
		Overrides: []policy.Override{{Key: []string{"10.0.0.1"}, Burst: 3}, {Key: []string{"10.0.0.4"}, Burst: 4}},
	}}}}
	lim, err := fastlimit.New(fastlimit.Config{Rules: a.settings.Limits()})
	if err != nil {
		t.Fatal(err)
	}
	a.base = lim.Rules()[0]
	if a.file, err = policy.New(lim, a.settings); err != nil {
		t.Fatal(err)
	}
	id, err := policy.NewIdentity(a.settings)
	if err != nil {
		t.Fatal(err)
	}
	shown := Listener{Options: denial.Options{Status: 429}, Always: true}
	a.Service = New(Config{Log: newService(t, new(bytes.Buffer), nil).log, DenialLogs: -1},
		NewSnapshot(Settings{Limiter: lim, Engine: a.file, Identity: id, Listeners: []Listener{shown}}))
	return a
}

func (a *alive) tier(burst uint64) *fastlimit.Rule {
	a.Helper()
	t, err := (*engine.Rule)(a.base).NewTier(fastlimit.Tier{Burst: burst, Clients: 1})
	if err != nil {
		a.Fatal(err)
	}
	return (*fastlimit.Rule)(t)
}

// swap has these clients limited by these tiers from now on, by nothing else live.
func (a *alive) swap(of map[string]*fastlimit.Rule) {
	a.Helper()
	var all []policy.LiveOverride
	var tiers []*fastlimit.Rule
	for client, tier := range of {
		all, tiers = append(all, policy.LiveOverride{Key: []string{client}, Tier: tier}), append(tiers, tier)
	}
	e, err := a.file.WithLive(&a.settings, all)
	if err != nil {
		a.Fatal(err)
	}
	a.Swap(a.Snapshot().WithEngine(e, tiers))
}

// ask sends a request and returns the header of its answer, all of it by one snapshot, as
// [Service.answerSimple] does.
func (a *alive) ask(client string) string { return a.askBy(a.Snapshot(), client) }

func (a *alive) askBy(snap *Snapshot, client string) string {
	r := snap.begin(0, nil, netip.MustParseAddr(client))
	defer r.end()
	r.read = time.Now()
	r.assembleSimple(&conn.Head{Method: []byte("GET"), Target: []byte("/"), Host: []byte("a")}, false)
	a.judge(a.Context(), r, false)
	if v := &r.verdict; !v.Decision.Allowed {
		return string(r.appendDenial(nil, snap.denial(v.Rule, 0), []byte("Date: Monday\r\n"), &v.Decision, false))
	}
	out := r.appendShown([]byte("HTTP/1.1 200 OK\r\n"))
	return string(out)
}

// policyOf is the limit shown in an answer.
func policyOf(burst int) string { return fmt.Sprintf(`"per-ip";q=%d;w=%d`, burst, burst*3600) }

func (a *alive) wants(what, answer string, status, burst int) {
	a.Helper()
	if !strings.HasPrefix(answer, fmt.Sprintf("HTTP/1.1 %d ", status)) || !strings.Contains(answer, "\r\nRateLimit-Policy: "+policyOf(burst)+"\r\n") {
		a.Errorf("%s: want %d with burst %d:\n%s", what, status, burst, answer)
	}
}

// Each client is shown its own limit: on admissions and on denials, for live tiers in any order, next to one
// of the settings, after another has been dropped, and when the next one takes its index.
func TestAnswersOfLiveTiers(t *testing.T) {
	t.Parallel()
	a := newAlive(t)
	five, one := a.tier(5), a.tier(1)
	before := a.Snapshot()
	a.swap(map[string]*fastlimit.Rule{"192.0.2.5": five, "192.0.2.1": one})
	for client, burst := range map[string]int{"192.0.2.5": 5, "192.0.2.1": 1, "10.0.0.1": 3, "10.0.0.4": 4, "192.0.2.2": 2} {
		for range burst {
			a.wants(client, a.ask(client), 200, burst)
		}
		a.wants(client, a.ask(client), 429, burst)
	}
	first := a.Snapshot()
	rendered := &first.live[0][0].on[0] // of five
	(*engine.Rule)(a.base).DropTier((*engine.Rule)(one))
	six := a.tier(6)
	a.swap(map[string]*fastlimit.Rule{"192.0.2.5": five, "192.0.2.6": six})
	a.wants("at once in place of the one that was dropped", a.ask("192.0.2.6"), 200, 6)
	a.swap(map[string]*fastlimit.Rule{"192.0.2.5": five})
	(*engine.Rule)(a.base).DropTier((*engine.Rule)(six))
	if again := a.Snapshot(); &again.live[0][0].on[0] != rendered {
		t.Error("answers that were there are rendered again")
	}
	a.wants("back under the rule's limit", a.ask("192.0.2.1"), 200, 2)
	a.wants("who keeps its own", a.ask("192.0.2.5"), 429, 5)
	seven := a.tier(7)
	if (*engine.Rule)(seven).TierIndex() != (*engine.Rule)(one).TierIndex() {
		t.Fatalf("index %d, want %d again", (*engine.Rule)(seven).TierIndex(), (*engine.Rule)(one).TierIndex())
	}
	a.swap(map[string]*fastlimit.Rule{"192.0.2.5": five, "192.0.2.7": seven})
	a.wants("in place of the one that was dropped", a.ask("192.0.2.7"), 200, 7)
	a.wants("in flight, of a tier that was dropped", a.askBy(first, "192.0.2.1"), 429, 1)
	(*engine.Rule)(a.base).DropTier((*engine.Rule)(five))
	a.swap(map[string]*fastlimit.Rule{"192.0.2.7": seven}) // leaves a gap before it
	a.wants("after a gap", a.ask("192.0.2.7"), 200, 7)
	a.swap(nil)
	a.wants("without any", a.ask("192.0.2.7"), 200, 2)
	a.wants("of the settings", a.ask("10.0.0.1"), 429, 3)
	a.wants("in flight since before all", a.askBy(before, "192.0.2.9"), 200, 2)
}

// While snapshots are replaced, with tiers made and dropped and their indices used again,
// each answer is of a limit that its client has had, and each client is admitted what its
// limits allow: others exactly their own.
func TestSwapUnderLoad(t *testing.T) {
	t.Parallel()
	const swaps, askers = 200, 4
	a := newAlive(t)
	var ended atomic.Bool
	var all sync.WaitGroup
	var admitted [2]atomic.Int64 // of who has overrides, and of who has none
	for i := range askers {
		all.Go(func() {
			for n := 0; n < 50 || !ended.Load(); n++ {
				whose := (n + i) % 2
				answer := a.ask([...]string{"192.0.2.1", "192.0.2.2"}[whose])
				if whose == 1 && !strings.Contains(answer, policyOf(2)) || !strings.Contains(answer, "RateLimit-Policy") {
					t.Errorf("%d: %s", whose, answer)
				}
				if whose == 0 && !strings.Contains(answer, policyOf(2)) && !strings.Contains(answer, policyOf(4)) && !strings.Contains(answer, policyOf(6)) {
					t.Errorf("a limit that the client never had: %s", answer)
				}
				if strings.HasPrefix(answer, "HTTP/1.1 200") {
					admitted[whose].Add(1)
				}
			}
		})
	}
	most, last := int64(2), (*fastlimit.Rule)(nil)
	for i := range swaps {
		burst := uint64(4 + i%2*2)
		tier := a.tier(burst)
		most += int64(burst)
		a.swap(map[string]*fastlimit.Rule{"192.0.2.1": tier})
		if last != nil {
			(*engine.Rule)(a.base).DropTier((*engine.Rule)(last))
		}
		last = tier
	}
	ended.Store(true)
	all.Wait()
	if own, others := admitted[0].Load(), admitted[1].Load(); own > most || own < 2 || others != 2 {
		t.Errorf("admitted %d with overrides, want at most %d, and %d of another, want 2", own, most, others)
	}
}
