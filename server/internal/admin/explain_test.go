package admin

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/server/internal/guard"
)

// echo answers with what it was asked.
type echo struct{}

func (echo) Rule(rule string, key []string, trusted bool) (any, error) {
	return fmt.Sprint("rule ", rule, key, trusted), nil
}

func (echo) Key(key []string, trusted bool) (any, error) {
	return fmt.Sprint("key ", key, trusted), nil
}

func (echo) Request(client netip.Addr, r *http.Request, trusted bool) (any, error) {
	return fmt.Sprint("request ", client, r.Method, r.Host, r.RequestURI, r.Header, trusted), nil
}

func (echo) Reset(body []byte, by string) (any, error) { return string(body) + " by " + by, nil }

// A question is about a rule, all rules or a request, and says whether the caller may make changes.
func TestExplain(t *testing.T) {
	t.Parallel()
	f := fixed(func(c *Config) {
		c.Listen = func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }
		c.Explain = echo{}
		c.Operator = func() guard.Operator { return guard.Operator{Tokens: []guard.Token{{Secret: token}}} }
	})
	if err := f.Listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	here := f.ln
	with := []string{"Authorization", "Bearer " + token}
	for _, c := range []struct {
		from        net.Listener
		query, want string
		headers     []string
	}{
		{here, "key=a&key=b", `200 "key [a b] true"`, nil},
		{elsewhere{here}, "key=a&key=b", `200 "key [a b] false"`, nil},
		{elsewhere{here}, "key=a&key=b", `200 "key [a b] true"`, with},
		{elsewhere{here}, "key=a", `200 "key [a] false"`, []string{"Authorization", "Bearer x"}},
		{elsewhere{here}, "key=a&rule=r", `200 "rule r[a] false"`, nil},
		{elsewhere{here}, "key=::1&method=POST&host=h&path=/x?y&header=a-b:%20c%20&header=A-B:d", `200 "request ::1POSTh/x?ymap[A-B:[c d]] false"`, nil},
		{here, "key=::1&host=h", `200 "request ::1GETh/map[] true"`, nil},
		{here, "", "400 name the client", nil},
		{here, "key=a" + strings.Repeat("&key=a", maxKeyParts), "400 name the client", nil},
		{here, "key=::1&rule=r&path=/", "400 rule cannot be combined with path", nil},
		{here, "key=a&path=/", "400 key: of a request it is the address", nil},
		{here, "key=::1&key=b&path=/", "400 key: of a request it is the address", nil},
		{here, "key=::1&path=x", "400 path: want one that begins with a slash", nil},
		{here, "key=::1&header=x", "400 header: want NAME:VALUE", nil},
		{here, "key=::1&header=%20:x", "400 header: want NAME:VALUE", nil},
	} {
		f.ln = c.from
		resp := ask(f, "GET", "/v1/explain?"+c.query, "", c.headers...)
		b, _ := io.ReadAll(resp.Body)
		status, text, _ := strings.Cut(c.want, " ")
		if fmt.Sprint(resp.StatusCode) != status || !strings.Contains(string(b), text) {
			t.Errorf("%.80s: %d %s, want %s", c.query, resp.StatusCode, b, c.want)
		}
	}
}
