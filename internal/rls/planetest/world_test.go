package planetest

import config "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"

// year is a unit of Envoy's API. The module's constants end at the day.
const year config.RateLimitUnit = 6

// world is a resource: a domain with descriptors.
func world(domain string, all ...*config.RateLimitDescriptor) *config.RateLimitConfig {
	return &config.RateLimitConfig{Name: "of-" + domain, Domain: domain, Descriptors: all}
}

// yearly is a descriptor with a limit for a year: no window ends during a test.
func yearly(key string, n int) *config.RateLimitDescriptor {
	return &config.RateLimitDescriptor{Key: key, RateLimit: policy(year, n)}
}

func policy(u config.RateLimitUnit, n int) *config.RateLimitPolicy {
	return &config.RateLimitPolicy{Unit: u, RequestsPerUnit: uint32(n)}
}

// limited is a descriptor with any policy.
func limited(key string, p *config.RateLimitPolicy) *config.RateLimitDescriptor {
	return &config.RateLimitDescriptor{Key: key, RateLimit: p}
}
