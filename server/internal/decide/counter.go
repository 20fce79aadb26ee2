package decide

import (
	"net/netip"
	"sync/atomic"

	"github.com/fastlimit/fastlimit/policy"
)

// outcome is the result of a request.
type outcome uint8

const (
	outcomeAllow outcome = iota
	outcomeDeny
	outcomeListAllow
	outcomeListDeny
	outcomeBan
	outcomeCount
)

func outcomeOf(v *policy.Verdict) outcome {
	switch {
	case v.List == policy.ListNone && v.Decision.Allowed:
		return outcomeAllow
	case v.Decision.Allowed:
		return outcomeListAllow
	case v.List == policy.ListDeny:
		return outcomeListDeny
	case v.List == policy.ListBan:
		return outcomeBan
	}
	return outcomeDeny
}

const outcomeStripes = 64

// outcomes counts requests. It is striped by request state, of which the pool keeps about one per core, so
// cores rarely share a cache line. Safe for concurrent use; the zero value is ready.
type outcomes struct {
	stripes [outcomeStripes]struct {
		n [outcomeCount]atomic.Uint64
		// Two lines: the adjacent-line prefetcher would make neighbours share.
		_ [128 - 8*outcomeCount]byte
	}
}

func (o *outcomes) add(stripe uint32, what outcome) {
	o.stripes[stripe%outcomeStripes].n[what].Add(1)
}

// Requests is how many requests rules and lists have allowed and denied, and how many operators' bans have
// denied.
type Requests struct{ Allowed, Denied, ListAllowed, ListDenied, Banned uint64 }

// Requests adds the counters up. Concurrent requests may be missing.
func (s *Service) Requests() Requests {
	var sum [outcomeCount]uint64
	for i := range s.counts.stripes {
		for w := range sum {
			sum[w] += s.counts.stripes[i].n[w].Load()
		}
	}
	return Requests{sum[outcomeAllow], sum[outcomeDeny], sum[outcomeListAllow], sum[outcomeListDeny], sum[outcomeBan]}
}

// Bad returns how many requests were refused as bad, by reason.
func (s *Service) Bad() map[string]uint64 {
	all := make(map[string]uint64)
	for _, b := range s.bad.all {
		all[b.Name] = b.Count.Load()
	}
	return all
}

// Untrusted returns how many requests seem to come from a proxy that is not trusted.
func (s *Service) Untrusted() uint64 { return s.hints.untrusted.Count() }

// UntrustedProxies are addresses that seem to be proxies and are not trusted now.
func (s *Service) UntrustedProxies() (all []netip.Addr) {
	for _, a := range s.hints.untrusted.Peers() {
		if !s.TrustsSome(netip.PrefixFrom(a, a.BitLen())) {
			all = append(all, a)
		}
	}
	return all
}

// Unnamed returns how many requests from trusted proxies named no client or no original request.
func (s *Service) Unnamed() uint64 { return s.hints.unnamed.Count() }
