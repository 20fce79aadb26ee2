package config

import "github.com/fastlimit/fastlimit/policy"

// The settings at the top level that say who is believed: trusted_proxies, client_ip_header,
// original_request and on_unnamed.

const defaultHeader = "X-Forwarded-For"

// originalRequest is a family of headers that name the request to decide on.
func originalRequest() value { return choice("none", "x-original", "x-forwarded") }

// checkProxies has package policy check who is believed.
func (d *decoder) checkProxies() {
	_, err := policy.NewIdentity(d.cfg.Policy)
	d.report("Policy", err)
}

// proxyWarnings are about settings that mean nothing without proxies, and about who is believed.
func proxyWarnings(c *Config, warn warnFunc) {
	none, original := len(c.Policy.TrustedProxies) == 0, c.Policy.OriginalRequest != 0
	if none && c.given("Policy.ClientIPHeader") {
		warn("client_ip_header: %s is read from trusted proxies only, and there are none; set trusted_proxies", c.Policy.ClientIPHeader)
	}
	if none && original {
		warn("original_request: its headers are read from trusted proxies only, and there are none; set trusted_proxies")
	}
	for i := range c.Server.Listeners {
		l := &c.Server.Listeners[i]
		if l.OriginalRequest == nil || *l.OriginalRequest == 0 {
			continue
		}
		original = true
		if none {
			warn("original_request: that of %s is read from trusted proxies only, and there are none; set trusted_proxies", l.Address)
		}
	}
	if none && c.given("Policy.OnUnnamed") {
		warn("on_unnamed: %v applies to trusted proxies, and there are none; set trusted_proxies", c.Policy.OnUnnamed)
	}
	if c.Server.Upstream != nil && original {
		warn("original_request: a proxy decides on the request that it forwards, so this has no effect with upstream; remove it")
	}
	for _, t := range c.Policy.TrustedProxies {
		if t.Bits() == 0 {
			warn("trusted_proxies: %v trusts everybody: any client may choose the address it is counted by; name the addresses of your proxies", t)
		}
	}
}
