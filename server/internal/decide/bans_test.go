package decide

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

func (a *alive) ban(text string, length time.Duration) {
	a.Helper()
	p, err := policy.ParseBan(text)
	if err != nil {
		a.Fatal(err)
	}
	a.Update(func(now *Snapshot) *Snapshot { return now.WithBans(now.engine.Bans().With(p, time.Now().Add(length))) })
}

// A ban takes effect at once, is counted separately, charges nobody, and ends by the time of the request
// alone.
func TestBan(t *testing.T) {
	t.Parallel()
	a := newAlive(t)
	a.ban("192.0.2.0/24", time.Hour)
	judge := func(after time.Duration) policy.Verdict {
		in := policy.Incoming{Peer: netip.MustParseAddr("192.0.2.1"), Method: []byte("GET"), Target: []byte("/"), Host: []byte("a")}
		v, _ := a.Service.Judge(a.Context(), &in, false, time.Now().Add(after))
		return v
	}
	for range 5 {
		if v := judge(0); v.List != policy.ListBan || v.Decision.Allowed || v.Decision.Stage != fastlimit.StageBan || v.Decision.RetryAfter <= 59*time.Minute {
			t.Fatalf("%+v", v)
		}
	}
	if n := a.Requests(); n != (Requests{Banned: 5}) {
		t.Errorf("%+v", n)
	}
	if v := judge(time.Hour); !v.Decision.Allowed || v.List != policy.ListNone {
		t.Errorf("after its end: %+v", v)
	}
}

// Bans, lists and overrides are parts of one snapshot: replacing one leaves the others.
func TestSwapsKeepBans(t *testing.T) {
	t.Parallel()
	a := newAlive(t)
	a.ban("192.0.2.0/24", time.Hour)
	a.setLists("192.0.2.7/32", "")
	if v := a.judgeOne("192.0.2.1"); v.List != policy.ListBan {
		t.Errorf("after a swap of lists: %+v", v)
	}
	a.swap(map[string]*fastlimit.Rule{"192.0.2.1": a.tier(7)})
	if v := a.judgeOne("192.0.2.1"); v.List != policy.ListBan {
		t.Errorf("after a swap of overrides: %+v", v)
	}
	if v := a.judgeOne("192.0.2.7"); v.List != policy.ListAllow {
		t.Errorf("an entry of the allow list within: %+v", v)
	}
	a.ban("198.51.100.1", time.Hour)
	if limit := a.limitOf("192.0.2.1"); limit.Config().Burst != 7 {
		t.Errorf("a ban has undone an override: %v", limit.Config().Burst)
	}
	if l := a.Snapshot().Lists(); l.Lookup(netip.MustParseAddr("192.0.2.7")) != policy.ListAllow {
		t.Error("a ban has undone a list")
	}
	if a.Snapshot().live == nil {
		t.Error("a ban has dropped the answers of live tiers")
	}
}

// A banned client is answered as one that a rule denies, with the status of the listener.
func TestAnswerToBanned(t *testing.T) {
	t.Parallel()
	a := newAlive(t)
	a.ban("10.0.0.0/8", 90*time.Second)
	v := a.judgeOne("10.0.0.1")
	v.Decision.RetryAfter, v.Decision.TimeToEmpty = 90*time.Second, 90*time.Second
	snap := a.Snapshot()
	got := string(snap.denialOf(&v, 0).append(nil, []byte("Date: d\r\n"), &v.Decision, false))
	want := strings.ReplaceAll(`HTTP/1.1 429 Too Many Requests
Date: d
Content-Type: application/problem+json
Content-Length: 172
RateLimit-Policy: "ban";q=0
Retry-After: 90
X-RateLimit-Reset: 90.000
Cache-Control: no-store
RateLimit: "ban";r=0;t=90
X-RateLimit-Remaining: 0
X-RateLimit-Clear: 90.000

`, "\n", "\r\n") + `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"detail":"The client is banned.","violated-policies":["ban"]}`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
