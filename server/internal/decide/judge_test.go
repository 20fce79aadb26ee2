package decide

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/fastlimit/fastlimit/policy"
)

// newService serves one rule per address, 1 per hour and burst 2, strict.
func newService(t *testing.T, log *bytes.Buffer, change func(*policy.Settings)) *Service {
	t.Helper()
	rule := fastlimit.RuleConfig{Name: "per-ip", Rate: fastlimit.Rate{N: 1, Per: time.Hour}, Burst: 2, Strict: true}
	set := policy.Settings{Rules: []policy.RuleSpec{{Limit: rule, Key: []policy.KeyPart{{Kind: policy.KeyIP}}}}}
	if change != nil {
		change(&set)
	}
	lim, err := fastlimit.New(fastlimit.Config{Rules: []fastlimit.RuleConfig{rule}})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := policy.New(lim, set)
	if err != nil {
		t.Fatal(err)
	}
	id, err := policy.NewIdentity(set)
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{Log: slog.New(slog.NewTextHandler(log, nil)), DenialLogs: 10},
		NewSnapshot(Settings{Limiter: lim, Engine: engine, Identity: id, Listeners: []Listener{{Options: denial.Options{Status: 429}}}}))
}

// A front end of its own kind is counted and logged like a listener.
func TestJudge(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	proxy := netip.MustParsePrefix("192.0.2.9/32")
	s := newService(t, &log, func(set *policy.Settings) {
		set.Deny = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
		set.TrustedProxies = []netip.Prefix{proxy}
		set.OnUnnamed = policy.UnnamedDeny
	})
	judge := func(peer, host string) (policy.Verdict, policy.Refusal) {
		in := policy.Incoming{Peer: netip.MustParseAddr(peer), Method: []byte("GET"), Target: []byte("/a"), Host: []byte(host)}
		return s.Judge(context.Background(), &in, true, time.Now())
	}
	for i, want := range []bool{true, true, false} {
		if v, refused := judge("192.0.2.1", "example.com"); v.Decision.Allowed != want || refused != policy.NotRefused {
			t.Errorf("request %d: %+v, %v", i, v, refused)
		}
	}
	if v, _ := judge("198.51.100.1", "example.com"); v.Decision.Allowed || v.List == policy.ListNone {
		t.Errorf("listed: %+v", v)
	}
	if v, refused := judge("192.0.2.1", "no host"); v.Decision.Allowed || refused != policy.RefusedHost {
		t.Errorf("a bad host: %+v, %v", v, refused)
	}
	if _, refused := judge("192.0.2.9", "example.com"); refused != policy.RefusedUnnamed {
		t.Errorf("an unnamed client: %v", refused)
	}
	if got, want := s.Requests(), (Requests{Allowed: 2, Denied: 1, ListDenied: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if bad := s.Bad(); bad["host"] != 1 || bad["unnamed"] != 1 || s.Unnamed() != 1 {
		t.Errorf("%v, %d unnamed", bad, s.Unnamed())
	}
	s.EndSecond()
	if text := log.String(); strings.Count(text, "client=") != 2 || !strings.Contains(text, "client=192.0.2.1 rule=per-ip key=192.0.2.1") {
		t.Error(text)
	}
}
