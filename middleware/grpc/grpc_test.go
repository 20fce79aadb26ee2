package grpclimit

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/middlewaretest"
	"github.com/fastlimit/fastlimit/policy"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
)

const loopback = "127.0.0.1"

func one(r *fastlimit.Rule) Config { return Config{Limits: []Limit{{Rule: r}}} }

// server serves the health service behind the interceptors, which has a unary
// call and a stream.
func server(t *testing.T, c Config, ln net.Listener) {
	t.Helper()
	i, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer(grpc.UnaryInterceptor(i.Unary), grpc.StreamInterceptor(i.Stream))
	healthpb.RegisterHealthServer(srv, health.NewServer())
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(srv.Stop)
}

func dial(t *testing.T, target string, options ...grpc.DialOption) healthpb.HealthClient {
	t.Helper()
	conn, err := grpc.NewClient(target, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return healthpb.NewHealthClient(conn)
}

// start serves on a loopback port.
func start(t *testing.T, c Config) healthpb.HealthClient {
	t.Helper()
	ln, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		t.Fatal(err)
	}
	server(t, c, ln)
	return dial(t, ln.Addr().String())
}

// check is a unary call with metadata, in pairs.
func check(t *testing.T, c healthpb.HealthClient, pairs ...string) error {
	t.Helper()
	ctx, cancel := context.WithDeadline(t.Context(), testkit.Deadline(t))
	defer cancel()
	_, err := c.Check(metadata.AppendToOutgoingContext(ctx, pairs...), &healthpb.HealthCheckRequest{})
	return err
}

func codesOf(t *testing.T, c healthpb.HealthClient, n int, pairs ...string) (all []codes.Code) {
	t.Helper()
	for range n {
		all = append(all, status.Code(check(t, c, pairs...)))
	}
	return all
}

func want(t *testing.T, what string, got []codes.Code, all ...codes.Code) {
	t.Helper()
	if len(got) != len(all) {
		t.Fatalf("%s: %v, want %v", what, got, all)
	}
	for i := range all {
		if got[i] != all[i] {
			t.Errorf("%s: %v, want %v", what, got, all)
			return
		}
	}
}

const (
	ok     = codes.OK
	denied = codes.ResourceExhausted
)

func TestDenialTellsWhenToRetry(t *testing.T) {
	t.Parallel()
	c := start(t, one(middlewaretest.Rules(t, 2)[0]))
	want(t, "the burst", codesOf(t, c, 2), ok, ok)
	err := check(t, c)
	s := status.Convert(err)
	if s.Code() != denied || s.Message() != "The limit of 1/h with a burst of 2 is exceeded." {
		t.Fatalf("got %v", err)
	}
	var retry time.Duration
	var subject string
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			retry = d.GetRetryDelay().AsDuration()
		case *errdetails.QuotaFailure:
			subject = d.GetViolations()[0].GetSubject()
		}
	}
	if retry <= 59*time.Minute || retry > time.Hour || subject != "rule:a" {
		t.Errorf("retry after %v, violated %q", retry, subject)
	}
}

// A stream counts once, when it begins.
func TestStreamsCountOnce(t *testing.T) {
	t.Parallel()
	rule := middlewaretest.Rules(t, 2)[0]
	c := start(t, one(rule))
	watch := func() error {
		ctx, cancel := context.WithDeadline(t.Context(), testkit.Deadline(t))
		defer cancel()
		stream, err := c.Watch(ctx, &healthpb.HealthCheckRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	if err := watch(); err != nil {
		t.Fatal(err)
	}
	if left := middlewaretest.Left(rule, loopback); left != 1 {
		t.Errorf("%d left after one stream, want 1", left)
	}
	if err := watch(); err != nil {
		t.Fatal(err)
	}
	if err := watch(); status.Code(err) != denied {
		t.Errorf("the third stream: %v", err)
	}
}

func TestShadowDeniesNobody(t *testing.T) {
	t.Parallel()
	lim, err := fastlimit.New(fastlimit.Config{Rules: []fastlimit.RuleConfig{{
		Name: "shadow", Rate: fastlimit.Rate{N: 1, Per: time.Hour}, Burst: 1, Strict: true, Mode: fastlimit.Shadow,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	rule := lim.Rules()[0]
	want(t, "shadow", codesOf(t, start(t, one(rule)), 3), ok, ok, ok)
	if s := rule.Stats(); s.Denied[fastlimit.StageTable]+s.Denied[fastlimit.StageExact] != 2 {
		t.Errorf("%+v", s)
	}
}

// What one rule took is given back when another denies.
func TestSeveralRules(t *testing.T) {
	t.Parallel()
	rules := middlewaretest.Rules(t, 10, 4)
	c := start(t, Config{Limits: []Limit{
		{Rule: rules[0]},
		{
			Rule: rules[1],
			Key: func(c Call) (fastlimit.Key, bool) {
				user := metadata.ValueFromIncomingContext(c.Context, "user")
				if len(user) == 0 {
					return fastlimit.Key{}, false
				}
				return rules[1].BytesKey([]byte(user[0]), []byte(c.Method)), true
			},
			Cost: func(c Call) uint64 {
				if _, unary := c.Request.(*healthpb.HealthCheckRequest); unary {
					return 2
				}
				return 1
			},
		},
	}})
	want(t, "alice", codesOf(t, c, 3, "user", "alice"), ok, ok, denied)
	want(t, "bob", codesOf(t, c, 1, "user", "bob"), ok)
	want(t, "nobody", codesOf(t, c, 2), ok, ok)
	if left := middlewaretest.Left(rules[0], loopback); left != 5 {
		t.Errorf("the first rule has %d left, want 10 less 5 that were admitted", left)
	}
}

func TestClientsBehindProxies(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		proxies       string
		unnamed       policy.UnnamedAction
		first, second string
		code          codes.Code // of the second
	}{
		{"127.0.0.0/8", 0, "192.0.2.7", "1.1.1.1, 192.0.2.7", denied},
		{"127.0.0.0/8", 0, "192.0.2.7", "192.0.2.8", ok},
		{"10.0.0.0/8", 0, "192.0.2.7", "192.0.2.8", denied}, // the peer is not trusted
		{"127.0.0.0/8", policy.UnnamedPeer, "unknown", "", denied},
		{"127.0.0.0/8", policy.UnnamedSkip, "unknown", "", ok},
		{"127.0.0.0/8", policy.UnnamedDeny, "192.0.2.7", "unknown", codes.InvalidArgument},
	} {
		config := one(middlewaretest.Rules(t, 1)[0])
		config.Clients = middlewaretest.Clients(t, tc.proxies, tc.unnamed)
		c := start(t, config)
		want(t, tc.first, codesOf(t, c, 1, "x-forwarded-for", tc.first), ok)
		want(t, tc.second, codesOf(t, c, 1, "x-forwarded-for", tc.second), tc.code)
	}
}

func TestPeersWithoutAnAddressAreRefused(t *testing.T) {
	t.Parallel()
	ln := bufconn.Listen(1 << 16)
	server(t, one(middlewaretest.Rules(t, 1)[0]), ln)
	c := dial(t, "passthrough:///memory", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return ln.DialContext(ctx) }))
	want(t, "no address", codesOf(t, c, 1), codes.InvalidArgument)
}

func TestSkipAndOnDeny(t *testing.T) {
	t.Parallel()
	config := one(middlewaretest.Rules(t, 1)[0])
	config.Skip = func(c Call) bool { return len(metadata.ValueFromIncomingContext(c.Context, "internal")) > 0 }
	config.OnDeny = func(c Call, v *Verdict) error {
		if len(metadata.ValueFromIncomingContext(c.Context, "plain")) > 0 {
			return nil
		}
		return status.Errorf(codes.Unavailable, "%s: %s", c.Method, v.Rule.Name())
	}
	c := start(t, config)
	want(t, "skipped", codesOf(t, c, 3, "internal", "1"), ok, ok, ok)
	want(t, "counted", codesOf(t, c, 1), ok)
	if s := status.Convert(check(t, c)); s.Code() != codes.Unavailable || s.Message() != "/grpc.health.v1.Health/Check: a" {
		t.Errorf("OnDeny: %v", s)
	}
	want(t, "OnDeny without an error", codesOf(t, c, 1, "plain", "1"), denied)
}

func TestNewNamesTheMistake(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{}); err == nil || !strings.HasPrefix(err.Error(), "fastlimit/middleware/grpc: no Limits") {
		t.Errorf("got %v", err)
	}
}

func TestLinksNoOtherServer(t *testing.T) {
	t.Parallel()
	middlewaretest.LinksNone(t, "fasthttp", "prometheus", "go-redis", "memberlist", "middleware/nethttp")
}
