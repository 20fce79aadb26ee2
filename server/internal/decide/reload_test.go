package decide

import (
	"bytes"
	"net/netip"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

// Rules that a reload has replaced, and their answers, are released although requests continue, even if no
// rule applies to these: their tables may have hundreds of MiB.
func TestReloadReleasesTheOldRules(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // one working memory, in use all the time
	var log bytes.Buffer
	s := newService(t, &log, nil)
	judge := func() {
		in := policy.Incoming{Peer: netip.MustParseAddr("192.0.2.1"), Method: []byte("GET"), Target: []byte("/"), Host: []byte("a")}
		v, _ := s.Judge(t.Context(), &in, false, time.Now())
		if snap := s.Snapshot(); v.Rule != nil && !v.Decision.Allowed { // and answer, as a resident does
			r := snap.begin(0, nil, in.Peer)
			r.appendDenial(nil, snap.denial(v.Rule, 0), []byte("Date: Monday\r\n"), &v.Decision, false)
			r.end()
		}
	}
	for range 9 {
		judge()
	}
	s.EndSecond() // the log lets go
	old := func() (old struct {
		rule    weak.Pointer[fastlimit.Rule]
		denials weak.Pointer[deny]
	},
	) {
		snap := s.Snapshot()
		old.rule, old.denials = weak.Make(snap.settings.Limiter.Rules()[0]), weak.Make(&snap.denials[0])
		return old
	}()
	s.Swap(newService(t, &log, func(set *policy.Settings) { set.Allow = append(set.Allow, netip.MustParsePrefix("192.0.2.0/24")) }).Snapshot())
	for range keepRetired + 10 {
		s.EndSecond()
	}
	for range 5 {
		judge()
		runtime.GC()
	}
	if old.rule.Value() != nil || old.denials.Value() != nil {
		t.Errorf("the old rule is kept: %v, its answers: %v", old.rule.Value() != nil, old.denials.Value() != nil)
	}
}
