package admin

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// ruleCalls notes what it is asked, and refuses changes to the rule "bad".
type ruleCalls struct{ made []string }

func (*ruleCalls) List() any { return map[string]string{"list": "all"} }

func (c *ruleCalls) Change(_ context.Context, rule string, body []byte, by string) (any, error) {
	return c.note(rule, "change "+rule+" "+string(body)+" by "+by)
}

func (c *ruleCalls) Undo(_ context.Context, rule string, forAll bool, by string) (any, error) {
	return c.note(rule, fmt.Sprintf("undo %s, all %v, by %s", rule, forAll, by))
}

func (c *ruleCalls) note(rule, call string) (any, error) {
	c.made = append(c.made, call)
	if rule == "bad" {
		return nil, refused(409)
	}
	return map[string]bool{"ok": true}, nil
}

func TestRules(t *testing.T) {
	t.Parallel()
	const body = `{"mode":"shadow"}`
	for _, remote := range []bool{false, true} {
		c := &ruleCalls{}
		guarded := changing{list: "/v1/rules", path: "/v1/rules/per-ip", query: "/v1/rules/per-ip?all_nodes=true", body: body, methods: []string{"PATCH", "DELETE"}, others: []string{"PUT", "POST", "OPTIONS"}}
		f, auth := guarded.strangers(t, remote, func(config *Config) { config.Rules = c })
		if len(c.made) > 0 {
			t.Errorf("a call that was refused came through: %q", c.made)
		}
		for _, a := range []answer{
			{"GET", "/v1/rules", "", 200, `{"list":"all"}`},
			{"PATCH", "/v1/rules/per-ip", body, 200, `{"ok":true}`},
			{"PATCH", "/v1/rules/bad", body, 409, "refused 409"},
			{"PATCH", "/v1/rules/per-ip", strings.Repeat("a", maxChangeBytes+1), 413, "send at most"},
			{"DELETE", "/v1/rules/a%20b", "", 200, `{"ok":true}`},
			{"DELETE", "/v1/rules/per-ip?all_nodes=true", "", 200, `{"ok":true}`},
			{"DELETE", "/v1/rules/per-ip?all_nodes=false", "", 200, `{"ok":true}`},
			{"DELETE", "/v1/rules/bad", "", 409, "refused 409"},
			{"DELETE", "/v1/rules/per-ip?all_nodes=%1b", "", 400, `all_nodes=\\x1b: want true or false`},
		} {
			a.check(t, f, auth)
		}
		want := []string{
			"change per-ip " + body + " by 192.0.2.1", "change bad " + body + " by 192.0.2.1", "undo a b, all false, by 192.0.2.1",
			"undo per-ip, all true, by 192.0.2.1", "undo per-ip, all false, by 192.0.2.1", "undo bad, all false, by 192.0.2.1",
		}
		if fmt.Sprint(c.made) != fmt.Sprint(want) {
			t.Errorf("calls: %q, want %q", c.made, want)
		}
	}
	none := fixed()
	if err := none.Listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(none.Close)
	for method, path := range map[string]string{"GET": "/v1/rules", "PATCH": "/v1/rules/per-ip", "DELETE": "/v1/rules/per-ip"} {
		a := answer{method, path, body, 404, "changes no rules"}
		a.check(t, none, nil)
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	f := fixed(func(c *Config) { c.Changes = func(n int) any { return map[string]int{"up to": n} } })
	for _, a := range []answer{
		{"GET", "/v1/changes", "", 200, `{"up to":100}`},
		{"GET", "/v1/changes?limit=1000", "", 200, `{"up to":1000}`},
		{"GET", "/v1/changes?limit=1001", "", 400, "limit=1001: want a whole number from 1 to 1000"},
	} {
		a.check(t, f, nil)
	}
	a := answer{"GET", "/v1/changes", "", 404, "records no changes"}
	a.check(t, fixed(), nil)
}
