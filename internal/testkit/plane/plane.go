// Package plane is a control plane that sends limits by xDS.
package plane

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"

	"github.com/fastlimit/fastlimit/internal/rls/api"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Type is that of the resources.
const Type = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

// Plane behaves as go-control-plane does: it sends its world to who has no version or another
// one, and to who refuses it, at once and again. It is safe for concurrent use, but for
// Serve and Stop.
type Plane struct {
	Requests chan *api.DiscoveryRequest // all that it got

	mu      sync.Mutex
	world   []*anypb.Any
	version int
	changed chan struct{} // closed when there is another world
	server  *grpc.Server
}

// New returns one whose first world will have the version after this one.
func New(version int) *Plane {
	return &Plane{Requests: make(chan *api.DiscoveryRequest, 1000), version: version, changed: make(chan struct{})}
}

// Stop ends what Serve has begun.
func (p *Plane) Stop() { p.server.Stop() }

// Serve listens at an address, or a free one, until Stop.
func (p *Plane) Serve(t testkit.T, addr string, options ...grpc.ServerOption) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	p.server = grpc.NewServer(options...)
	p.server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "envoy.service.discovery.v3.AggregatedDiscoveryService", HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{StreamName: "StreamAggregatedResources", ServerStreams: true, ClientStreams: true, Handler: func(_ any, s grpc.ServerStream) error { return p.stream(s) }}},
	}, p)
	go p.server.Serve(l) //nolint:errcheck // it ends with stop
	t.Cleanup(p.server.Stop)
	return l.Addr().String()
}

// Set replaces the world.
func (p *Plane) Set(world ...*anypb.Any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.world, p.version = world, p.version+1
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Plane) now() (world []*anypb.Any, version string, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.world, strconv.Itoa(p.version), p.changed
}

func (p *Plane) stream(s grpc.ServerStream) error {
	asked := make(chan *api.DiscoveryRequest)
	go func() {
		defer close(asked)
		for {
			m := new(api.DiscoveryRequest)
			if s.RecvMsg(m) != nil {
				return
			}
			p.Requests <- m
			asked <- m
		}
	}()
	nonce, sent := 0, ""
	var waits <-chan struct{}
	for {
		select {
		case m, ok := <-asked:
			if !ok {
				return errors.New("gone")
			}
			if m.GetErrorDetail() == nil {
				sent = m.GetVersionInfo()
			} else {
				sent = "" // so that it is sent once more
			}
		case <-waits:
		}
		world, version, changed := p.now()
		if waits = changed; version == sent || len(world) == 0 && version == "0" {
			continue
		}
		nonce++
		if err := s.SendMsg(&api.DiscoveryResponse{VersionInfo: version, Resources: world, TypeUrl: Type, Nonce: strconv.Itoa(nonce)}); err != nil {
			return err
		}
		waits = nil // until it is answered
	}
}

// Limit is a resource with one limit, of key k.
func Limit(t testkit.T, domain string, requests uint32, u api.Unit) *anypb.Any {
	t.Helper()
	value, err := proto.Marshal(&api.RateLimitConfig{Name: "r-" + domain, Domain: domain, Descriptors: []*api.ConfiguredDescriptor{
		{Key: "k", RateLimit: &api.RateLimitPolicy{RequestsPerUnit: requests, Unit: u}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return &anypb.Any{TypeUrl: Type, Value: value}
}
