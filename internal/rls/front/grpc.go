package front

import (
	"context"
	"errors"
	"time"

	"github.com/fastlimit/fastlimit/internal/rls/api"
	"github.com/fastlimit/fastlimit/internal/rls/env"
	"github.com/fastlimit/fastlimit/internal/rls/service"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpckeepalive "google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// description is Envoy's service, as gRPC names it.
var description = grpc.ServiceDesc{
	ServiceName: "envoy.service.ratelimit.v3.RateLimitService",
	HandlerType: (*any)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "ShouldRateLimit", Handler: shouldRateLimit}},
}

func shouldRateLimit(svc any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // gRPC's order
	in := new(api.RateLimitRequest)
	if err := decode(in); err != nil {
		return nil, err
	}
	return decide(svc.(*service.Service), in)
}

// decide answers a message.
func decide(svc *service.Service, in *api.RateLimitRequest) (*api.RateLimitResponse, error) {
	resp, err := svc.Decide(time.Duration(time.Now().UnixNano()), api.ToRequest(in))
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
