package admin

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"slices"
	"testing"

	"github.com/fastlimit/fastlimit/server/internal/guard"
)

type unusable struct{}

func (unusable) Error() string   { return "c.yaml:1:1: a\nc.yaml:2:1: b" }
func (unusable) HTTPStatus() int { return 422 }

// A reload answers when it is done, or with all errors; only operators get that far.
func TestReload(t *testing.T) {
	t.Parallel()
	var calls []string
	var fails error
	f := fixed(func(c *Config) {
		c.Listen = func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }
		c.Reload = func(_ context.Context, by string) error { calls = append(calls, by); return fails }
		c.Operator = func() guard.Operator { return guard.Operator{Tokens: []guard.Token{{Secret: token}}} }
	})
	if err := f.Listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	post := func(headers ...string) (int, string) {
		resp := ask(f, "POST", "/v1/reload", "", headers...)
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	if code, body := post(); code != 200 || body != `{"reloaded":true}`+"\n" || len(calls) != 1 || calls[0] == "" {
		t.Errorf("%d %s, called by %q", code, body, calls)
	}
	fails = unusable{}
	code, body := post()
	var answer struct{ Errors []string }
	if json.Unmarshal([]byte(body), &answer) != nil || code != 422 || !slices.Equal(answer.Errors, []string{"c.yaml:1:1: a", "c.yaml:2:1: b"}) {
		t.Errorf("%d %s", code, body)
	}
	fails = io.EOF
	if code, _ = post(); code != 500 {
		t.Errorf("an error of nobody's: %d", code)
	}
	calls = nil
	f.ln = elsewhere{f.ln}
	for _, c := range []struct {
		want    int
		headers []string
	}{
		{401, nil},
		{401, []string{"Authorization", "Bearer x"}},
		{403, []string{"Authorization", "Bearer " + token, "Sec-Fetch-Site", "cross-site"}},
		{403, []string{"Authorization", "Bearer " + token, "Origin", "http://evil.example"}},
	} {
		if code, _ := post(c.headers...); code != c.want || calls != nil {
			t.Errorf("%q: %d, called %q", c.headers, code, calls)
		}
	}
	fails = nil
	if code, _ := post("Authorization", "Bearer "+token); code != 200 || len(calls) != 1 {
		t.Errorf("with the token: %d", code)
	}
	f.Reload = nil
	if code, _ := post("Authorization", "Bearer "+token); code != 404 {
		t.Errorf("without a configuration: %d", code)
	}
}
