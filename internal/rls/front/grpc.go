package front

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit/internal/rls/api"
	"github.com/fastlimit/fastlimit/internal/rls/env"
	"github.com/fastlimit/fastlimit/internal/rls/service"
	"github.com/fastlimit/fastlimit/internal/rls/stats"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // clients may compress
	grpckeepalive "google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

const (
	serviceName = "envoy.service.ratelimit.v3.RateLimitService"
	path        = "/" + serviceName + "/ShouldRateLimit"
)

// description is Envoy's service, as gRPC names it.
var description = grpc.ServiceDesc{
	ServiceName: serviceName,
	HandlerType: (*any)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "ShouldRateLimit", Handler: shouldRateLimit}},
}

func shouldRateLimit(svc any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // gRPC's order
	in := new(api.RateLimitRequest)
	if err := decode(in); err != nil {
		return nil, err
	}
	if intercept == nil {
		return svc.(*Front).decide(in)
	}
	return intercept(ctx, in, &grpc.UnaryServerInfo{Server: svc, FullMethod: path}, func(context.Context, any) (any, error) { return svc.(*Front).decide(in) })
}

// timed counts calls, by the last part of their method's name.
func timed(all *stats.Registry) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		start := time.Now()
		out, err := handle(ctx, in)
		all.Observe(info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:], time.Since(start).Seconds())
		return out, err
	}
}

// decide answers a message.
func (f *Front) decide(in *api.RateLimitRequest) (*api.RateLimitResponse, error) {
	resp, err := f.service.Decide(time.Duration(time.Now().UnixNano()), api.ToRequest(in))
	if err != nil {
		f.stats.ServiceErrors.Add(1)
	}
	switch {
	case errors.Is(err, service.ErrNoLimits):
		return nil, status.Error(codes.Unavailable, err.Error())
	case err != nil:
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return api.FromResponse(resp)
}

// keepalive closes old connections, so that clients spread over nodes that come later.
func keepalive(s env.Settings) grpc.ServerOption {
	return grpc.KeepaliveParams(grpckeepalive.ServerParameters{MaxConnectionAge: s.MaxAge, MaxConnectionAgeGrace: s.MaxAgeGrace})
}
