package planetest

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	xds "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	config "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"google.golang.org/grpc"
)

// plane is a control plane. Its methods are for the goroutine of the test.
type plane struct {
	t       *testing.T
	cache   cache.SnapshotCache
	server  *grpc.Server
	addr    string
	version int
	asked   chan *discovery.DiscoveryRequest // in order

	// spoil changes responses on their way, if there is one: it makes what go-control-plane
	// itself does not send. Set it before the world that it concerns.
	spoil func(*discovery.DiscoveryResponse)
}

// newPlane returns one that listens at an address until the test ends, with no world yet.
func newPlane(t *testing.T, addr string, options ...grpc.ServerOption) *plane {
	t.Helper()
	p := &plane{t: t, cache: cache.NewSnapshotCache(true, cache.IDHash{}, nil), asked: make(chan *discovery.DiscoveryRequest, 10_000)}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
	must(t, err)
	p.addr, p.server = l.Addr().String(), grpc.NewServer(options...)
	ctx, cancel := context.WithCancel(context.Background())
	discovery.RegisterAggregatedDiscoveryServiceServer(p.server, xds.NewServer(ctx, p.cache, xds.CallbackFuncs{
		StreamRequestFunc: func(_ int64, r *discovery.DiscoveryRequest) error {
			p.asked <- r
			return nil
		},
		StreamResponseFunc: func(_ context.Context, _ int64, _ *discovery.DiscoveryRequest, r *discovery.DiscoveryResponse) {
			if p.spoil != nil {
				p.spoil(r)
			}
		},
	}))
	go func() { _ = p.server.Serve(l) }() // it ends with Stop
	t.Cleanup(func() {
		cancel()
		p.server.Stop()
	})
	return p
}

// set replaces the world and returns its version.
func (p *plane) set(world ...*config.RateLimitConfig) string {
	p.t.Helper()
	p.version++
	all := make([]types.Resource, len(world))
	for i, c := range world {
		all[i] = c
	}
	version := strconv.Itoa(p.version)
	s, err := cache.NewSnapshot(version, map[resource.Type][]types.Resource{resource.RateLimitConfigType: all})
	must(p.t, err)
	must(p.t, p.cache.SetSnapshot(p.t.Context(), node, s))
	return version
}

// put replaces the world and waits until the program says that it is in force.
func (p *plane) put(world ...*config.RateLimitConfig) {
	p.t.Helper()
	version := p.set(world...)
	for r := p.next(); r.GetVersionInfo() != version; r = p.next() {
		if why := r.GetErrorDetail(); why != nil {
			p.t.Fatalf("version %s is refused: %s", version, why.GetMessage())
		}
	}
}

// next is the next request that arrives.
func (p *plane) next() *discovery.DiscoveryRequest {
	p.t.Helper()
	select {
	case r := <-p.asked:
		return r
	case <-time.After(time.Until(testkit.Deadline(p.t))):
		p.t.Fatal("no request arrives at the control plane")
		return nil
	}
}

// refusal is the next request that refuses a world.
func (p *plane) refusal() *discovery.DiscoveryRequest {
	p.t.Helper()
	for {
		if r := p.next(); r.GetErrorDetail() != nil {
			return r
		}
	}
}
