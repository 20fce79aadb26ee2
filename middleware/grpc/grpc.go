// Package grpclimit limits the calls to gRPC servers by the rules of a limiter. It is a
// separate module, so that the main module does not depend on gRPC.
//
//	limited, err := grpclimit.New(grpclimit.Config{Limits: []grpclimit.Limit{{Rule: perIP}}})
//	srv := grpc.NewServer(grpc.UnaryInterceptor(limited.Unary), grpc.StreamInterceptor(limited.Stream))
//
// An admitted call reaches the handler unchanged. A stream counts as one call, however
// many messages it has. A denied call ends with [codes.ResourceExhausted]; its details
// are a google.rpc.RetryInfo, by which clients back off, and a
// google.rpc.QuotaFailure, which names the rule.
//
// # Waiting
//
// A call under a rule with a MaxWait waits for its turn instead of being denied; see
// [fastlimit.Rule.Wait]. If the client cancels it, the next moves up. Call
// [fastlimit.Limiter.StopWaiting] before grpc.Server.GracefulStop, which would otherwise
// wait for all waiting calls.
//
// # Who the client is
//
// The client is the peer of the connection or, if Config.Clients trusts that peer as
// a proxy, the address that the proxy names in the metadata. A call whose client has no
// address, as over a Unix socket, ends with [codes.InvalidArgument]: if all such
// clients shared a key, one could have the others denied.
package grpclimit

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/middleware/internal/limits"
	"github.com/fastlimit/fastlimit/policy"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Config configures an [Interceptor].
type Config struct {
	// Limits are the rules, all of one limiter. At least one. A call is admitted if every
	// rule that applies admits it; if one denies it, the others are not charged. Shadow
	// rules count, but never deny.
	Limits []Limit

	// Clients determines the client of a call behind trusted proxies. nil means that no
	// proxy is trusted, so the peer is the client.
	Clients *policy.Identity

	// Skip returns true for calls to exempt from all limits. They are not charged. nil
	// exempts none.
	Skip func(c Call) bool

	// OnDeny returns the error that a denied call ends with. If OnDeny is nil or
	// returns nil, it is v.Err().
	OnDeny func(c Call, v *Verdict) error
}

// Limit is one rule and how it applies to calls.
type Limit struct {
	// Rule is the limit. Required.
	Rule *fastlimit.Rule
	// Key returns the key of a call, made by Rule; ok is false if the rule does not
	// apply to it. nil means the address of the client, see [Client].
	Key func(c Call) (key fastlimit.Key, ok bool)
	// Cost returns how many units a call takes. With 0 the rule does not apply, with
	// more than its burst it always denies. nil means the cost of the rule.
	Cost func(c Call) uint64
}

// Call is one call of a client. Peer and metadata are in its context.
type Call struct {
	Context context.Context
	Method  string // in full: /package.service/method
	Request any    // the message of a unary call, nil for streams
}

// Verdict is the decision on a denied call.
type Verdict struct {
	fastlimit.Decision
	// Rule is the rule that decided: if several deny, usually the one with the longest RetryAfter.
	Rule *fastlimit.Rule
}

// Interceptor limits the calls to a server. Its methods are the interceptors. It
// is safe for concurrent use. The zero value is not usable: call [New].
type Interceptor struct {
	config Config
	limits *limits.Set[Call]
}

// New returns an interceptor, or an error that says which field of c is wrong.
func New(c Config) (*Interceptor, error) {
	client := func(call Call, clients *policy.Identity) (netip.Addr, policy.ClientSource) {
		return Client(call.Context, clients)
	}
	set, err := limits.New("grpc", c.Limits, 0, nil, client, c.Clients)
	if err != nil {
		return nil, err
	}
	return &Interceptor{config: c, limits: set}, nil
}

// Client returns the client of the call with this context and how it is known, see
// [policy.Identity.Client].
func Client(ctx context.Context, clients *policy.Identity) (netip.Addr, policy.ClientSource) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return netip.Addr{}, policy.ClientNoAddress
	}
	var named []string
	if name := clients.Header(); name != "" {
		named = metadata.ValueFromIncomingContext(ctx, name)
	}
	return clients.ClientString(policy.PeerAddr(p.Addr), named)
}

// Unary is a [grpc.UnaryServerInterceptor].
func (i *Interceptor) Unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if err := i.admit(Call{ctx, info.FullMethod, request}); err != nil {
		return nil, err
	}
	return handler(ctx, request)
}

// Stream is a [grpc.StreamServerInterceptor]. It decides once, when the stream
// begins.
func (i *Interceptor) Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if err := i.admit(Call{stream.Context(), info.FullMethod, nil}); err != nil {
		return err
	}
	return handler(srv, stream)
}

// admit decides on a call. It returns the error that the call ends with, nil if it is
// admitted.
func (i *Interceptor) admit(c Call) error {
	if i.config.Skip != nil && i.config.Skip(c) {
		return nil
	}
	o := i.limits.Decide(c.Context, c)
	switch {
	case o.Refused != policy.NotRefused:
		return status.Error(codes.InvalidArgument, limits.Detail(o.Refused))
	case o.Allowed:
		return nil
	}
	v := &Verdict{Decision: o.Decision, Rule: o.Rule}
	if i.config.OnDeny != nil {
		if err := i.config.OnDeny(c, v); err != nil {
			return err
		}
	}
	return v.Err()
}

// Err returns the error that a denied call ends with: [codes.ResourceExhausted] with
// RetryInfo and QuotaFailure.
func (v *Verdict) Err() error {
	config := v.Rule.Config()
	text := fmt.Sprintf("The limit of %v with a burst of %d is exceeded.", config.Rate, config.Burst)
	if config.Algorithm.Periodic() { // windows and logs have none
		text = fmt.Sprintf("The limit of %v is exceeded.", config.Rate)
	}
	s := status.New(codes.ResourceExhausted, text)
	detailed, err := s.WithDetails(
		&errdetails.RetryInfo{RetryDelay: durationpb.New(v.RetryAfter)},
		&errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{Subject: "rule:" + v.Rule.Name(), Description: text}}},
	)
	if err != nil {
		return s.Err()
	}
	return detailed.Err()
}
