package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

func TestOnUnnamed(t *testing.T) {
	t.Parallel()
	const rules = "\nrules: [{name: a, rate: 1/s}]\n"
	for text, want := range map[string]policy.UnnamedAction{
		"trusted_proxies: [127.0.0.1]":                       policy.UnnamedPeer,
		"trusted_proxies: [127.0.0.1]\non_unnamed: peer":     policy.UnnamedPeer,
		"trusted_proxies: [127.0.0.1]\non_unnamed: skip":     policy.UnnamedSkip,
		"trusted_proxies: [127.0.0.1]\non_unnamed: \"deny\"": policy.UnnamedDeny,
	} {
		c, err := Parse("f", []byte(text+rules), nil)
		if err != nil || c.Policy.OnUnnamed != want {
			t.Errorf("%q: %v, %v", text, c, err)
		}
	}
	for _, bad := range []string{"allow", "Deny", "[deny]", "{}", "403", "true"} {
		_, err := Parse("f", []byte("on_unnamed: "+bad+rules), nil)
		if err == nil || !strings.Contains(err.Error(), "f:1:13: on_unnamed: ") || !strings.Contains(err.Error(), "peer, skip or deny") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, err := Parse("f", []byte("on_unnamed:"+rules), nil); err == nil || !strings.Contains(err.Error(), "on_unnamed: has no value") {
		t.Errorf("no value: %v", err)
	}
}

func TestOnUnnamedWithoutProxiesIsWarnedOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"on_unnamed: deny": true,
		"on_unnamed: peer": true,
		"on_unnamed: deny\ntrusted_proxies: [127.0.0.1]": false,
		"": false,
	} {
		c, err := Parse("f", []byte(text+"\nrules: [{name: a, rate: 1/s}]\n"), nil)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := fastlimit.NewPlan(c.Limiter())
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(strings.Join(Warnings(c, plan), "\n"), "on_unnamed: "); got != want {
			t.Errorf("%q: warned %v", text, got)
		}
	}
}

// A listener has the headers of the top level, wherever that stands, unless it names its own.
func TestOriginalRequestOfListeners(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "listen: [{address: 'a:1', original_request: none}, 'a:2', {address: 'a:3', original_request: x-original}]\noriginal_request: x-forwarded\n"+rule)
	var got []string
	for i := range c.Server.Listeners {
		if o := c.Server.Listeners[i].OriginalRequest; o != nil {
			got = append(got, o.String())
		} else {
			got = append(got, "common")
		}
	}
	if !slices.Equal(got, []string{"none", "common", "x-original"}) || c.Policy.OriginalRequest != policy.OriginalXForwarded {
		t.Errorf("%v, and %v", got, c.Policy.OriginalRequest)
	}
	if w := strings.Join(Warnings(c, plan(t, c)), "\n"); !strings.Contains(w, "original_request: that of a:3 is read from trusted proxies only") || strings.Contains(w, "of a:1 is") {
		t.Error(w)
	}
	_, err := Parse("f.yaml", []byte("listen: [{address: 'a:1', original_request: x-originals}]\n"+rule), noEnv)
	if err == nil || err.Error() != `f.yaml:1:45: listen[0].original_request: "x-originals" is not a known value; did you mean x-original? write none, x-original or x-forwarded` {
		t.Error(err)
	}
}
