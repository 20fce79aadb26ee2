// Package front serves Envoy's rate limit service: gRPC, the same as JSON over HTTP, health
// checks, and what operators look at. It has the ports and paths of envoyproxy/ratelimit.
package front

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/internal/rls/env"
	"github.com/fastlimit/fastlimit/internal/rls/service"
	"github.com/fastlimit/fastlimit/internal/rls/stats"
	"github.com/fastlimit/fastlimit/internal/unixsocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// Bounds on what a client may send or hold up.
const (
	maxMessage  = 4 << 20
	maxHeaders  = 16 << 10
	maxStreams  = 1000 // of a connection at a time
	handshake   = 10 * time.Second
	slowRequest = 10 * time.Second
	idleHTTP    = time.Minute
	drain       = 10 * time.Second
)

// Front is the server. It is used by one goroutine, but for [Front.Ready].
type Front struct {
	log     *slog.Logger
	service *service.Service
	stats   *stats.Registry

	grpc   *grpc.Server
	health *health.Server
	http   []*http.Server // of requests, of operators, and of metrics if there are any
	ok     atomic.Bool

	listeners []net.Listener // of grpc, and of http
}

// New returns a server that is not healthy until [Front.Ready] says so. all are the metrics
// that it serves, and counts calls in. The error is of certificates.
func New(s env.Settings, svc *service.Service, all *stats.Registry, log *slog.Logger) (*Front, error) {
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxHeaderListSize(maxHeaders), grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(handshake), keepalive(s), grpc.UnaryInterceptor(timed(all)),
	}
	if s.TLS != nil {
		creds, err := credentialsOf(*s.TLS, log)
		if err != nil {
			return nil, err
		}
		options = append(options, grpc.Creds(creds))
	}
	f := &Front{log: log, service: svc, stats: all, grpc: grpc.NewServer(options...), health: health.NewServer()}
	f.grpc.RegisterService(&description, f)
	grpc_health_v1.RegisterHealthServer(f.grpc, f.health)
	f.Ready(false)
	f.http = []*http.Server{f.server(f.requests()), f.server(f.operators())}
	if s.Metrics != "" {
		mux := http.NewServeMux()
		mux.Handle(s.MetricsPath, all.Handler())
		f.http = append(f.http, f.server(mux))
	}
	return f, nil
}

func (f *Front) server(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadTimeout: slowRequest, IdleTimeout: idleHTTP, MaxHeaderBytes: maxHeaders,
		ErrorLog: slog.NewLogLogger(f.log.Handler(), slog.LevelDebug),
	}
}

// Ready sets what health checks answer.
func (f *Front) Ready(ok bool) {
	f.ok.Store(ok)
	status := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if ok {
		status = grpc_health_v1.HealthCheckResponse_SERVING
	}
	f.health.SetServingStatus("ratelimit", status)
}

// Listen opens the ports.
func (f *Front) Listen(s env.Settings) error {
	for _, addr := range []string{s.GRPC, s.HTTP, s.Debug, s.Metrics}[:1+len(f.http)] {
		l, err := listen(addr)
		if err != nil {
			f.close()
			return fmt.Errorf("fastlimit/rls: %w", err)
		}
		f.listeners = append(f.listeners, l)
	}
	return nil
}

// socketMode is what a socket has with the usual umask.
const socketMode = 0o755

func listen(addr string) (net.Listener, error) {
	if path, ok := unixsocket.Path(addr); ok {
		l, fix, err := unixsocket.Listen(path, socketMode)
		if err != nil {
			return nil, fmt.Errorf("GRPC_UDS %s: %w; %s", path, err, fix)
		}
		return l, nil
	}
	return new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
}

// Addrs returns the addresses that Listen has opened, for logs.
func (f *Front) Addrs() (all []slog.Attr) {
	for i, l := range f.listeners {
		all = append(all, slog.String([]string{"grpc", "http", "debug", "metrics"}[i], l.Addr().String()))
	}
	return all
}

func (f *Front) close() {
	for _, l := range f.listeners {
		l.Close()
	}
}

// Serve answers until ctx ends, and then those whose requests have come. It returns the
// error of a port that fails.
func (f *Front) Serve(ctx context.Context) error {
	defer f.close()
	failed := make(chan error, len(f.listeners))
	go func() { failed <- f.grpc.Serve(f.listeners[0]) }()
	for i, s := range f.http {
		go func() { failed <- s.Serve(f.listeners[1+i]) }()
	}
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	f.Ready(false)
	f.stop()
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// stop lets answers be finished for a while.
func (f *Front) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	stopped := make(chan struct{})
	go func() {
		f.grpc.GracefulStop()
		close(stopped)
	}()
	for _, s := range f.http {
		if s.Shutdown(ctx) != nil {
			_ = s.Close() // it has not ended in time
		}
	}
	select {
	case <-stopped:
	case <-ctx.Done():
		f.grpc.Stop()
	}
}
