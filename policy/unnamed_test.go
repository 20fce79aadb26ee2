package policy

import (
	"net/netip"
	"testing"

	"github.com/fastlimit/fastlimit/internal/engine"
)

func TestUnnamedHintWarnsOnceOfEach(t *testing.T) {
	t.Parallel()
	var h UnnamedHint
	for step, c := range []struct{ noClient, noRequest, warn bool }{
		{true, false, true}, {true, false, false}, {false, true, true}, {true, true, false}, {false, true, false},
	} {
		if got := h.Note(c.noClient, c.noRequest); got != c.warn {
			t.Errorf("step %d: warn %v", step, got)
		}
		if h.Count() != uint64(step+1) {
			t.Errorf("step %d: counted %d", step, h.Count())
		}
	}
}

func TestOnUnnamedIsChecked(t *testing.T) {
	t.Parallel()
	if _, err := NewIdentity(Settings{OnUnnamed: UnnamedDeny + 1}); err == nil {
		t.Error("accepted")
	}
	for _, o := range []UnnamedAction{UnnamedPeer, UnnamedSkip, UnnamedDeny} {
		id, err := NewIdentity(Settings{OnUnnamed: o})
		if err != nil || id.OnUnnamed() != o {
			t.Errorf("%v: %v, %v", o, id, err)
		}
	}
}

// Without a name the rules with an address in their key are left out; the lists
// still go by the client.
func TestUnnamedRequest(t *testing.T) {
	t.Parallel()
	rules := []RuleSpec{{Key: []KeyPart{{Kind: KeyIP}}}, {Key: []KeyPart{{Kind: KeyIP}, {Kind: KeyMethod}}}, {Key: []KeyPart{{Kind: KeyMethod}}}}
	for i := range rules {
		rules[i].Limit = ruleOf(string(rune('a'+i)), 5)
	}
	e := mustEngine(t, Settings{Rules: rules, Deny: prefixes("192.0.2.7/32")})
	var s Scratch
	r := Request{Client: netip.MustParseAddr("192.0.2.1"), Method: []byte("GET"), SkipIPRules: true}
	e.Decide(t.Context(), &r, &s)
	if applied := s.Applied(); len(applied) != 1 || (*engine.Rule)(applied[0].Rule).Index() != 2 {
		t.Errorf("applied: %+v", applied)
	}
	r.SkipIPRules = false
	e.Decide(t.Context(), &r, &s)
	if n := len(s.Applied()); n != 3 {
		t.Errorf("%d rules applied", n)
	}
	r.SkipIPRules, r.Client = true, netip.MustParseAddr("192.0.2.7")
	if v := e.Decide(t.Context(), &r, &s); v.List != ListDeny {
		t.Errorf("the list was not asked: %+v", v)
	}
}
