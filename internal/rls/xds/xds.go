// Package xds gets limits from a control plane such as Envoy Gateway, by a stream of xDS
// (state of the world, aggregated). See [the protocol].
//
// A response is all limits. If they are good they are put in force, and the response is
// acknowledged. If one is bad the response is refused with the reason, and the limits in
// force stay; an empty one leaves no limits. A stream that ends leaves the limits in force,
// and the next begins as the first did, without version and nonce: a control plane that was
// started again counts its versions from the start.
//
// go-control-plane answers a refusal at once with the same response. So the first refusal is
// sent at once, and others a second after the one before.
//
// [the protocol]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol
package xds

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit/internal/mistake"
	"github.com/fastlimit/fastlimit/internal/rls/api"
	"github.com/fastlimit/fastlimit/internal/rls/descriptor"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	// typeURL is the type of the resources.
	typeURL = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"
	method  = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"

	refuseEvery = time.Second
)

// Config says where the limits come from. All fields but TLS, Metadata and Headers are
// required.
type Config struct {
	Server   string            // host:port
	Node     string            // id, by which the control plane knows who asks
	Metadata map[string]string // of the node
	Headers  map[string]string // of the call

	TLS *TLS // nil: none

	Connect            time.Duration // pause after a connection that could not be made
	RetryMin, RetryMax time.Duration // pause after a stream that ended: it doubles
	MaxMessage         int           // bytes of a response
	Merge              bool          // resources may have the same domain

	Apply  func(*descriptor.Limits) // puts limits in force
	Refuse func(error)              // is told why a response was refused, a [mistake.Errors] for limits
	Logger *slog.Logger
}

// Run keeps a stream open until ctx ends.
func Run(ctx context.Context, c Config) {
	ctx = metadata.NewOutgoingContext(ctx, metadata.New(c.Headers))
	pause := c.RetryMin
	for {
		s := &stream{config: &c}
		err := s.run(ctx)
		if ctx.Err() != nil {
			return
		}
		wait := c.Connect
		if s.answered {
			pause = c.RetryMin
		}
		if s.opened {
			wait, pause = pause, min(2*pause, c.RetryMax)
		}
		wait += time.Duration(rand.Int64N(int64(wait)/4 + 1))
		c.Logger.Warn("no stream of limits: those in force stay", slog.String("server", c.Server), slog.Any("error", err), slog.Duration("again_in", wait))
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// stream is one connection with one stream. It is used by one goroutine.
type stream struct {
	config *Config
	grpc.ClientStream

	opened, answered bool
	version          string // of the last good response
	refused          time.Time
	said             string // why, last
}

var streamDesc = grpc.StreamDesc{StreamName: "StreamAggregatedResources", ServerStreams: true, ClientStreams: true}

// run returns when the stream ends. Certificates are read again for each.
func (s *stream) run(ctx context.Context) error {
	creds, err := s.config.TLS.credentials()
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient(s.config.Server, grpc.WithTransportCredentials(creds), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(s.config.MaxMessage)))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.ClientStream, err = conn.NewStream(ctx, &streamDesc, method); err != nil {
		return err
	}
	fields := map[string]any{}
	for k, v := range s.config.Metadata {
		fields[k] = v
	}
	node, err := structpb.NewStruct(fields)
	if err != nil {
		return err
	}
	err = s.SendMsg(&api.DiscoveryRequest{Node: &api.Node{Id: s.config.Node, Metadata: node}, TypeUrl: typeURL})
	for s.opened = true; err == nil; {
		resp := new(api.DiscoveryResponse)
		if err = s.RecvMsg(resp); err == nil {
			s.answered = true
			err = s.take(ctx, resp)
		}
	}
	return err
}

// take puts a response in force, or refuses it.
func (s *stream) take(ctx context.Context, resp *api.DiscoveryResponse) error {
	limits, err := s.config.limits(resp)
	if err == nil {
		s.config.Apply(limits)
		s.version, s.said = resp.GetVersionInfo(), ""
		return s.SendMsg(&api.DiscoveryRequest{VersionInfo: s.version, TypeUrl: typeURL, ResponseNonce: resp.GetNonce()})
	}
	if why := err.Error(); why != s.said { // the same response comes again and again
		s.said = why
		s.config.Refuse(err)
	}
	if wait := refuseEvery - time.Since(s.refused); wait > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
	s.refused = time.Now()
	return s.SendMsg(&api.DiscoveryRequest{
		VersionInfo: s.version, TypeUrl: typeURL, ResponseNonce: resp.GetNonce(),
		ErrorDetail: &api.Status{Code: int32(codes.InvalidArgument), Message: s.said},
	})
}

// limits returns those of a response, or all that is wrong with it.
func (c *Config) limits(resp *api.DiscoveryResponse) (*descriptor.Limits, error) {
	if resp.GetTypeUrl() != typeURL {
		return nil, fmt.Errorf("a response of type %q: want %s", resp.GetTypeUrl(), typeURL)
	}
	configs := make([]descriptor.Config, 0, len(resp.GetResources()))
	var bad mistake.Errors
	for i, r := range resp.GetResources() {
		m, err := resource(r)
		if err != nil {
			bad = append(bad, &mistake.Error{File: fmt.Sprintf("resource %d", i), Problem: err.Error()})
			continue
		}
		configs = append(configs, api.ToConfig(m))
	}
	// go-control-plane sends resources in any order. Which is taken first is seen where two have
	// the same domain.
	slices.SortStableFunc(configs, func(a, b descriptor.Config) int { return strings.Compare(a.Name, b.Name) })
	limits, more := descriptor.New(configs, c.Merge)
	if bad = append(bad, more...); len(bad) > 0 {
		return nil, bad
	}
	return limits, nil
}
