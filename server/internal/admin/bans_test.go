package admin

import (
	"fmt"
	"strings"
	"testing"
)

// banCalls notes what it is asked, and refuses as its calls' status says.
type banCalls struct{ made []string }

func (c *banCalls) List(rule string, limit int) (any, error) {
	if rule == "bad" {
		return nil, refused(404)
	}
	return map[string]string{"list": fmt.Sprint(rule, " ", limit)}, nil
}

func (c *banCalls) Ban(body []byte, by string) (any, error) {
	c.made = append(c.made, "ban "+string(body)+" by "+by)
	if string(body) == "bad" {
		return nil, refused(422)
	}
	return map[string]bool{"ok": true}, nil
}

func (c *banCalls) Unban(rule string, key []string, by string) (any, error) {
	c.made = append(c.made, fmt.Sprintf("unban %s %q by %s", rule, key, by))
	if rule == "bad" {
		return nil, refused(404)
	}
	return map[string]bool{"ended": true}, nil
}

func TestBans(t *testing.T) {
	t.Parallel()
	const body, query = `{"key":"192.0.2.0/24"}`, "/v1/bans?rule=r&key=a%20b&key=%00"
	for _, remote := range []bool{false, true} {
		c := &banCalls{}
		guarded := changing{path: "/v1/bans", query: query, body: body, methods: []string{"POST", "DELETE"}, others: []string{"PUT", "PATCH", "OPTIONS"}}
		f, auth := guarded.strangers(t, remote, func(config *Config) { config.Bans = c })
		if len(c.made) > 0 {
			t.Errorf("a call that was refused came through: %q", c.made)
		}
		for _, a := range []answer{
			{"GET", "/v1/bans", "", 200, `{"list":" 1000"}`},
			{"GET", "/v1/bans?rule=x&limit=10000", "", 200, `{"list":"x 10000"}`},
			{"GET", "/v1/bans?rule=bad", "", 404, "refused 404"},
			{"GET", "/v1/bans?limit=10001", "", 400, "limit=10001: want a whole number from 1 to 10000"},
			{"GET", "/v1/bans?limit=0", "", 400, "limit=0: want"},
			{"GET", "/v1/bans?limit=%1b", "", 400, `limit=\\x1b: want`},
			{"POST", "/v1/bans", body, 200, `{"ok":true}`},
			{"POST", "/v1/bans", "bad", 422, "refused 422"},
			{"POST", "/v1/bans", strings.Repeat("a", maxChangeBytes+1), 413, "send at most"},
			{"DELETE", query, "", 200, `{"ended":true}`},
			{"DELETE", "/v1/bans?key=k", "", 200, `{"ended":true}`},
			{"DELETE", "/v1/bans?rule=bad&key=k", "", 404, "refused 404"},
			{"DELETE", "/v1/bans?rule=r", "", 400, "name the client or prefix"},
			{"DELETE", "/v1/bans?rule=r" + strings.Repeat("&key=k", maxKeyParts+1), "", 400, "name the client or prefix"},
		} {
			a.check(t, f, auth)
		}
		want := []string{
			"ban " + body + " by 192.0.2.1", "ban bad by 192.0.2.1", `unban r ["a b" "\x00"] by 192.0.2.1`, `unban  ["k"] by 192.0.2.1`, `unban bad ["k"] by 192.0.2.1`,
		}
		if fmt.Sprint(c.made) != fmt.Sprint(want) {
			t.Errorf("calls: %q, want %q", c.made, want)
		}
	}
	for _, method := range []string{"GET", "POST", "DELETE"} {
		f := fixed()
		if err := f.Listen(); err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if resp := ask(f, method, "/v1/bans?key=k", "{}", "Content-Type", jsonType); resp.StatusCode != 404 {
			t.Errorf("%s without any: %d", method, resp.StatusCode)
		}
	}
}
