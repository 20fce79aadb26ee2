package config

import (
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
