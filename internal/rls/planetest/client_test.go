package planetest

import (
	"testing"

	limit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// client calls the program as Envoy does.
type client struct {
	t *testing.T
	ratelimit.RateLimitServiceClient
}

// dial returns a client with a connection of its own.
func (p *program) dial() client {
	p.t.Helper()
	c, err := grpc.NewClient(p.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(p.t, err)
	p.t.Cleanup(func() { _ = c.Close() }) // it may be closed
	return client{p.t, ratelimit.NewRateLimitServiceClient(c)}
}

// entries is a descriptor of keys and values in turn.
func entries(pairs ...string) *limit.RateLimitDescriptor {
	d := new(limit.RateLimitDescriptor)
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &limit.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

// ask calls for the domain shop.
func (c client) ask(hits int, all ...*limit.RateLimitDescriptor) (*ratelimit.RateLimitResponse, error) {
	return c.ShouldRateLimit(c.t.Context(), &ratelimit.RateLimitRequest{Domain: "shop", Descriptors: all, HitsAddend: uint32(hits)})
}

// left is what is left of a limit after one more hit, and -1 over it.
func (c client) left(pairs ...string) int {
	c.t.Helper()
	r, err := c.ask(1, entries(pairs...))
	must(c.t, err)
	if r.GetOverallCode() == ratelimit.RateLimitResponse_OVER_LIMIT {
		return -1
	}
	return int(r.GetStatuses()[0].GetLimitRemaining())
}
