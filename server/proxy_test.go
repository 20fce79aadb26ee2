package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/fastlimit/fastlimit/policy"
)

// A proxy decides on the request that it passes on, whatever a trusted peer says of
// another one.
func TestProxyIgnoresOriginalRequests(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) }))
	defer app.Close()
	set := perIP()
	set.TrustedProxies = loopback()
	set.OriginalRequest = policy.OriginalXOriginal
	set.Rules[0].Match.Paths = []string{"/login"}
	s := start(t, set, func(c *Config) {
		c.Upstream = &Upstream{URLs: []string{app.URL}}
		own := policy.OriginalXOriginal
		c.Listeners[0].OriginalRequest = &own
	})
	for i := range 5 {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+s.addr+"/login", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Original-Uri", "/elsewhere")
		req.Header.Set("X-Forwarded-For", "192.0.2.1")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if want := map[bool]int{true: 200, false: 429}[i < 3]; resp.StatusCode != want {
			t.Errorf("request %d: %s", i, resp.Status)
		}
	}
}
