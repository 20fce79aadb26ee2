package engine

import (
	"net/netip"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

// What another node says bans for as long as it is said, and Max at most, and changes nothing
// else: neither is it reported as a ban of this node, nor does the next ban begin sooner or
// last longer.
func TestBansOfOthers(t *testing.T) {
	t.Parallel()
	var begun, ended []Ban
	clock := new(ManualClock)
	lim, err := New(Config{
		Rules: []limit.RuleConfig{banRule("a")}, Clock: clock,
		OnBan: func(b Ban) { begun = append(begun, b) }, OnUnban: func(b Ban) { ended = append(ended, b) },
	})
	if err != nil {
		t.Fatal(err)
	}
	r := lim.rules[0]
	key := r.AddrKey(netip.MustParseAddr("192.0.2.7"))
	said := Ban{Digest: key.Digest(), Name: string(r.appendName(nil, key)), Left: time.Hour, Times: 5}
	if !r.BanFor(&said) {
		t.Fatal("refused")
	}
	if left, _ := r.Banned(key); left != time.Minute {
		t.Errorf("banned for %v, want Max", left)
	}
	if said.Left = time.Second; !r.BanFor(&said) {
		t.Error("refused a shorter one")
	}
	if left, _ := r.Banned(key); left != time.Minute {
		t.Errorf("banned for %v, shortened", left)
	}
	was, banned := r.UnbanFor(said.Digest)
	if _, again := r.UnbanFor(said.Digest); !banned || again || was.Name != said.Name || was.Own != 0 || len(ended) > 0 {
		t.Errorf("ended %+v; OnUnban for what another node has said: %+v", was, ended)
	}
	said.Left = time.Minute
	r.BanFor(&said)
	clock.Set(time.Minute)
	for i, want := range []limit.Stage{limit.StageExact, limit.StageExact, limit.StageTable, limit.StageTable, limit.StageBan} {
		if d := r.Take(t.Context(), key, 1); d.Stage != want || want == limit.StageBan && d.RetryAfter != 10*time.Second {
			t.Errorf("request %d after the end: %+v, want stage %v", i, d, want)
		}
	}
	if len(begun) != 1 {
		t.Errorf("OnBan: %+v", begun)
	}
	if !r.Unban(key) || r.Unban(key) || len(ended) != 1 || ended[0].Rule != r || ended[0].Digest != key.Digest() {
		t.Errorf("OnUnban: %+v", ended)
	}
	r.BanFor(&said)
	if !r.UnbanDigest(said.Digest) || len(ended) != 2 {
		t.Errorf("OnUnban: %+v", ended)
	}

	// What this node has begun nobody else ends.
	for range 5 {
		r.Take(t.Context(), key, 1)
	}
	if was, banned := r.UnbanFor(said.Digest); banned || len(begun) != 2 {
		t.Errorf("another node has ended %+v; bans of this node: %+v", was, begun)
	}
	if _, banned := r.Banned(key); !banned {
		t.Error("not banned")
	}
}
