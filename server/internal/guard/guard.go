// Package guard refuses calls that a browser makes for another site's page. The
// browser's user may reach the admin listener or /v1/decide where the site cannot.
package guard

import (
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/fastlimit/fastlimit/server/internal/text"
)

// Call describes a call. Its fields come from a client unchecked, and appear in errors only escaped.
type Call struct {
	Method, ContentType, Site, Origin, Host string // Site is Sec-Fetch-Site
	HasBody                                 bool
}

// Check is for calls that change something: Caddy's admin endpoint had CVE-2026-27589. A browser sends a
// page's form to any site without asking, but JSON only after a preflight, which nothing here allows. Check
// returns the status and the reason of a refusal.
func (c *Call) Check() (int, error) {
	if c.Method != http.MethodPost {
		return http.StatusMethodNotAllowed, fmt.Errorf("method %s: send POST", text.Printable(c.Method))
	}
	if err := c.CrossSite(); err != nil {
		return http.StatusForbidden, err
	}
	return c.checkMedia()
}

// checkMedia refuses a body that a page's form could send.
func (c *Call) checkMedia() (int, error) {
	if media, _, err := mime.ParseMediaType(c.ContentType); c.HasBody && (err != nil || media != "application/json") {
		return http.StatusUnsupportedMediaType, fmt.Errorf("content type %q: send application/json", text.Printable(c.ContentType))
	}
	return http.StatusOK, nil
}

// CrossSite is for all calls. It returns an error for what a browser sends for another site's page. Other
// clients send neither of the two headers.
func (c *Call) CrossSite() error {
	switch c.Site {
	case "", "none", "same-origin":
	default:
		return fmt.Errorf("Sec-Fetch-Site %s: requests from other sites are refused", text.Printable(c.Site))
	}
	if c.Origin == "" {
		return nil
	}
	if u, err := url.Parse(c.Origin); err != nil || !strings.EqualFold(u.Host, c.Host) {
		return errors.New("the Origin is not this host: requests from other sites are refused")
	}
	return nil
}

// LocalName reports whether a Host header names this machine in a way that no foreign DNS record can: an
// address or localhost. On a loopback listener any other name is a page that rebinds its own name to us.
// 0.0.0.0 is refused: it connects to this machine too, and browsers have let pages reach it.
func LocalName(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if addr, err := netip.ParseAddr(host); err == nil {
		return !addr.Unmap().IsUnspecified()
	}
	host = strings.ToLower(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
