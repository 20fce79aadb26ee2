package admin

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/server/internal/guard"
)

// Only callers that may make changes learn the hash of a value.
func TestKey(t *testing.T) {
	t.Parallel()
	f := fixed(func(c *Config) {
		c.Listen = func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }
		c.HashKey = func(value string) string { return "#" + value }
		c.Operator = func() guard.Operator { return guard.Operator{Tokens: []guard.Token{{Secret: token}}} }
	})
	if err := f.Listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	ln := f.ln
	for _, tt := range []struct {
		body    string
		from    net.Listener
		headers []string
		want    int
		says    string
	}{
		{`{"value":"a key"}`, ln, nil, 200, `{"key":"#a key"}`},
		{`{"value":""}`, ln, nil, 400, "value is missing or empty; send for example"},
		{`{}`, ln, nil, 400, "value is missing or empty"},
		{`{"value":5}`, ln, nil, 400, "names no value"},
		{`{"value":"` + strings.Repeat("x", maxChangeBytes) + `"}`, ln, nil, 413, ""},
		{`{"value":"a"}`, elsewhere{ln}, nil, 401, ""},
		{`{"value":"a"}`, elsewhere{ln}, []string{"Authorization", "Bearer " + token}, 200, `{"key":"#a"}`},
	} {
		f.ln = tt.from
		resp := ask(f, "POST", "/v1/key", tt.body, append(tt.headers, "Content-Type", "application/json")...)
		b, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != tt.want || !strings.Contains(string(b), tt.says) {
			t.Errorf("%.40s: %d %s, want %d %s", tt.body, resp.StatusCode, b, tt.want, tt.says)
		}
	}
}
