package server

import (
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// guard is what protects a call from the browser of somebody who can reach us
// (Caddy's admin endpoint had CVE-2026-27589): check for one that changes
// something, crossSite for all.
type guard struct {
	method, contentType, site, origin, host string
	hasBody                                 bool
}

// check returns the status and the reason of a refusal.
func (g *guard) check() (int, error) {
	if g.method != http.MethodPost {
		return http.StatusMethodNotAllowed, fmt.Errorf("method %s: send POST", printable(g.method))
	}
	if err := g.crossSite(); err != nil {
		return http.StatusForbidden, err
	}
	if media, _, err := mime.ParseMediaType(g.contentType); g.hasBody && (err != nil || media != jsonMediaType) {
		return http.StatusUnsupportedMediaType, fmt.Errorf("content type %q: send application/json", printable(g.contentType))
	}
	return http.StatusOK, nil
}

// crossSite refuses what a browser sends for another site's page. Clients other
// than browsers send neither header.
func (g *guard) crossSite() error {
	switch g.site {
	case "", "none", "same-origin":
	default:
		return fmt.Errorf("Sec-Fetch-Site %s: requests from other sites are refused", printable(g.site))
	}
	if g.origin == "" {
		return nil
	}
	if u, err := url.Parse(g.origin); err != nil || !strings.EqualFold(u.Host, g.host) {
		return errors.New("the Origin is not this host: requests from other sites are refused")
	}
	return nil
}

// localName reports whether a Host header names this machine in a way that no
// foreign DNS record can: an address or localhost. On a loopback listener any
// other name is a page that rebinds its own name to us.
func localName(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	host = strings.ToLower(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
