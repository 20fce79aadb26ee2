package guard

import (
	"strings"
	"testing"
)

// What changes something needs all of it: POST, this site, JSON.
func TestCheck(t *testing.T) {
	t.Parallel()
	good := Call{Method: "POST", ContentType: "application/json", Host: "limiter:8081", HasBody: true}
	for _, c := range []struct {
		name   string
		change func(*Call)
		status int
		reason string // a part of it
	}{
		{"a client of ours", func(*Call) {}, 200, ""},
		{"with a charset", func(c *Call) { c.ContentType = "Application/JSON; charset=utf-8" }, 200, ""},
		{"no body, no type", func(c *Call) { c.ContentType, c.HasBody = "", false }, 200, ""},
		{"no body, a form's type", func(c *Call) { c.ContentType, c.HasBody = "text/plain", false }, 200, ""},
		{"own page", func(c *Call) { c.Site, c.Origin = "same-origin", "https://limiter:8081" }, 200, ""},
		{"GET", func(c *Call) { c.Method = "GET" }, 405, "method GET: send POST"},
		{"lower case", func(c *Call) { c.Method = "post" }, 405, "send POST"},
		{"a method for the log", func(c *Call) { c.Method = "\x1b[31m" }, 405, `method \x1b[31m`},
		{"a body of no type", func(c *Call) { c.ContentType = "" }, 415, "send application/json"},
		{"a form", func(c *Call) { c.ContentType = "text/plain" }, 415, `content type "text/plain"`},
		{"JSON as a parameter", func(c *Call) { c.ContentType = "text/plain; a=application/json" }, 415, ""},
		{"two types", func(c *Call) { c.ContentType = "application/json, text/plain" }, 415, ""},
		{"another site", func(c *Call) { c.Site = "cross-site" }, 403, "Sec-Fetch-Site cross-site"},
		{"another site's form is told the first thing that is wrong", func(c *Call) { c.Site, c.ContentType = "cross-site", "text/plain" }, 403, ""},
	} {
		call := good
		c.change(&call)
		status, err := call.Check()
		if status != c.status || (err == nil) != (status == 200) || err != nil && !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: got %d %v, want %d with %q", c.name, status, err, c.status, c.reason)
		}
	}
}

// A browser says of each request whose page has made it. Whatever does not say
// so clearly is another's.
func TestCrossSite(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		site, origin string
		refused      bool
	}{
		{"", "", false},     // not a browser
		{"none", "", false}, // typed by the user
		{"same-origin", "", false},
		{"same-origin", "http://limiter:8081", false},
		{"", "HTTP://LIMITER:8081", false},
		{"same-site", "", true}, // another host of the same domain
		{"cross-site", "", true},
		{"Same-Origin", "", true},
		{"nonsense", "", true},
		{"same-origin", "http://limiter", true}, // another port
		{"same-origin", "http://limiter:8081.evil.example", true},
		{"", "http://evil.example", true},
		{"", "null", true}, // a sandbox, a file
		{"", "limiter:8081", true},
		{"", "://", true},
	} {
		call := Call{Host: "limiter:8081", Site: c.site, Origin: c.origin}
		if err := call.CrossSite(); (err != nil) != c.refused {
			t.Errorf("site %q, origin %q: %v", c.site, c.origin, err)
		}
	}
}

func TestLocalName(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "localhost:8081": true, "LocalHost": true, "admin.localhost:1": true,
		"127.0.0.1": true, "127.0.0.1:8081": true, "[::1]": true, "[::1]:8081": true, "::1": true, "192.0.2.1": true,
		"": false, "evil.example": false, "evil.example:8081": false, "localhost.evil.example": false,
		"0.0.0.0": false, "0.0.0.0:8081": false, "[::]:8081": false, "[::ffff:0.0.0.0]:1": false,
		"notlocalhost": false, "127.0.0.1.evil.example": false, "localhost:8081:1": false,
	} {
		if got := LocalName(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}
