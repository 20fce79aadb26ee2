package xds

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/rls/api"
	"github.com/fastlimit/fastlimit/internal/rls/descriptor"
	"github.com/fastlimit/fastlimit/internal/testkit/plane"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// client is a stream under test.
type client struct {
	*plane.Plane

	t       *testing.T
	worlds  chan string // as they are put in force
	refused chan string
}

func follow(t *testing.T, p *plane.Plane, addr string, secure *TLS) *client {
	t.Helper()
	c := &client{p, t, make(chan string, 100), make(chan string, 100)}
	done := make(chan struct{})
	t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		Run(t.Context(), Config{
			Server: addr, Node: "node", Metadata: map[string]string{"zone": "a"}, Headers: map[string]string{"x": "y"}, TLS: secure,
			Connect: 10 * time.Millisecond, RetryMin: 10 * time.Millisecond, RetryMax: 50 * time.Millisecond, MaxMessage: 1 << 20,
			Apply: func(l *descriptor.Limits) { c.worlds <- l.String() }, Refuse: func(err error) { c.refused <- err.Error() },
			Logger: slog.New(slog.DiscardHandler),
		})
	}()
	return c
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(time.Minute):
		t.Fatal("nothing comes")
	}
	panic("BUG: not reached")
}

func (c *client) wantWorld(want string) {
	c.t.Helper()
	if got := receive(c.t, c.worlds); got != want {
		c.t.Errorf("in force:\n%swant\n%s", got, want)
	}
}

func (c *client) wantRequest(version, nonce string, reason string) {
	c.t.Helper()
	m := receive(c.t, c.Requests)
	if m.GetVersionInfo() != version || m.GetResponseNonce() != nonce || m.GetTypeUrl() != typeURL || m.GetErrorDetail().GetMessage() != reason ||
		reason != "" && m.GetErrorDetail().GetCode() != int32(codes.InvalidArgument) {
		c.t.Errorf("got %v, want version %q, nonce %q, reason %q", m, version, nonce, reason)
	}
}

const world5, world6 = "d.k: unit=HOUR requests_per_unit=5, shadow_mode: false, quota_mode: false\n", "d.k: unit=HOUR requests_per_unit=6, shadow_mode: false, quota_mode: false\n"

// TestWorlds: each is acknowledged, a bad one is refused and leaves the one before.
func TestWorlds(t *testing.T) {
	t.Parallel()
	p := plane.New(0)
	p.Set(plane.Limit(t, "d", 5, api.Unit_HOUR))
	c := follow(t, p, p.Serve(t, "127.0.0.1:0"), nil)
	first := receive(t, c.Requests)
	if first.GetNode().GetId() != "node" || first.GetNode().GetMetadata().AsMap()["zone"] != "a" || first.GetVersionInfo() != "" || first.GetTypeUrl() != typeURL {
		t.Errorf("the first request: %v", first)
	}
	c.wantWorld(world5)
	c.wantRequest("1", "1", "")

	p.Set(plane.Limit(t, "d", 5, api.Unit_UNKNOWN), plane.Limit(t, "", 5, api.Unit_DAY))
	const reason = "r-: domain: is missing or empty; write the domain that Envoy sends\n" + // by their names
		`r-d: d.k: unknown unit "UNKNOWN"; want second, minute, hour, day, week, month or year, or unlimited: true`
	if got := receive(t, c.refused); got != reason {
		t.Errorf("refused: %s", got)
	}
	c.wantRequest("1", "2", reason)
	p.Set(plane.Limit(t, "d", 6, api.Unit_HOUR))
	c.wantWorld(world6)
	for m := receive(t, c.Requests); m.GetVersionInfo() != "3"; m = receive(t, c.Requests) { // and refusals before it
		if m.GetVersionInfo() != "1" {
			t.Errorf("got %v", m)
		}
	}
	p.Set()
	c.wantWorld("")
	if len(c.refused) > 0 {
		t.Errorf("the same reason is told again: %s", <-c.refused)
	}
}

// TestRefusals come once a second: the control plane answers each at once.
func TestRefusals(t *testing.T) {
	t.Parallel()
	p := plane.New(0)
	p.Set(&anypb.Any{TypeUrl: typeURL, Value: []byte("\xff")}, &anypb.Any{TypeUrl: "other"})
	c := follow(t, p, p.Serve(t, "127.0.0.1:0"), nil)
	receive(t, c.Requests)
	if got := receive(t, c.refused); !strings.HasPrefix(got, "resource 0: ") || !strings.Contains(got, "\nresource 1: type \"other\": want ") {
		t.Errorf("refused: %s", got)
	}
	start := time.Now()
	for range 3 {
		receive(t, c.Requests)
	}
	if took := time.Since(start); took < 2*refuseEvery-100*time.Millisecond {
		t.Errorf("three refusals within %v", took)
	}
}

// TestLostStream: what is in force stays, and a control plane that counts from the start
// again is followed.
func TestLostStream(t *testing.T) {
	t.Parallel()
	p := plane.New(41)
	p.Set(plane.Limit(t, "d", 5, api.Unit_HOUR))
	addr := p.Serve(t, "127.0.0.1:0")
	c := follow(t, p, addr, nil)
	receive(t, c.Requests)
	c.wantWorld(world5)
	c.wantRequest("42", "1", "")
	p.Stop()
	again := plane.New(0)
	again.Requests = p.Requests
	again.Set(plane.Limit(t, "d", 6, api.Unit_HOUR))
	again.Serve(t, addr)
	if first := receive(t, c.Requests); first.GetVersionInfo() != "" || first.GetResponseNonce() != "" || first.GetNode().GetId() != "node" {
		t.Errorf("the first request of a new stream: %v", first)
	}
	c.wantWorld(world6)
	c.wantRequest("1", "1", "")
}

// TestTLS: both sides show certificates, and new ones count for the next connection.
func TestTLS(t *testing.T) {
	t.Parallel()
	server, mine := redistest.NewCertificate(t, time.Now().Add(time.Hour)), redistest.NewCertificate(t, time.Now().Add(time.Hour))
	p := plane.New(0)
	p.Set(plane.Limit(t, "d", 5, api.Unit_HOUR))
	addr := p.Serve(t, "127.0.0.1:0", mutual(t, server, mine))
	c := follow(t, p, addr, &TLS{CAFile: server.CertFile, CertFile: mine.CertFile, KeyFile: mine.KeyFile})
	c.wantWorld(world5)
	p.Stop()
	newServer, newMine := redistest.NewCertificate(t, time.Now().Add(2*time.Hour)), redistest.NewCertificate(t, time.Now().Add(2*time.Hour))
	for from, to := range map[string]string{newServer.CertFile: server.CertFile, newMine.CertFile: mine.CertFile, newMine.KeyFile: mine.KeyFile} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again := plane.New(0)
	again.Set(plane.Limit(t, "d", 6, api.Unit_HOUR))
	again.Serve(t, addr, mutual(t, newServer, newMine))
	c.wantWorld(world6)
}

// mutual has a server show one certificate and ask for another.
func mutual(t *testing.T, server, client redistest.Certificate) grpc.ServerOption {
	t.Helper()
	cfg, _ := server.Configs(t)
	text, err := os.ReadFile(client.CertFile)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ClientCAs, cfg.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	cfg.ClientCAs.AppendCertsFromPEM(text)
	return grpc.Creds(credentials.NewTLS(cfg))
}

// TestResources has every setting that a control plane can send.
func TestResources(t *testing.T) {
	t.Parallel()
	value, err := proto.Marshal(&api.RateLimitConfig{Name: "r", Domain: "d", Descriptors: []*api.ConfiguredDescriptor{{
		Key: "k", Value: "v", ShadowMode: true, QuotaMode: true, DetailedMetric: true,
		RateLimit:   &api.RateLimitPolicy{RequestsPerUnit: 7, Unit: api.Unit_WEEK, Name: "n", Replaces: []*api.RateLimitPolicy_Replace{{Name: "m"}}},
		Descriptors: []*api.ConfiguredDescriptor{{Key: "free", RateLimit: &api.RateLimitPolicy{Unlimited: true}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	limits, err := (&Config{}).limits(&api.DiscoveryResponse{TypeUrl: typeURL, Resources: []*anypb.Any{{TypeUrl: typeURL, Value: value}}})
	if err != nil {
		t.Fatal(err)
	}
	var m descriptor.Match
	limits.Find("d", []descriptor.Entry{{Key: "k", Value: "v"}}, &m)
	if l := m.Limit; l == nil || l.Requests != 7 || l.Unit != descriptor.Week || !l.Shadow || !l.Quota || !l.Detailed || l.Name != "n" || len(l.Replaces) != 1 || l.Replaces[0] != "m" {
		t.Errorf("%+v", l)
	}
	if limits.Find("d", []descriptor.Entry{{Key: "k", Value: "v"}, {Key: "free"}}, &m); m.Limit == nil || !m.Limit.Unlimited {
		t.Errorf("%+v", m.Limit)
	}
	if _, err := (&Config{}).limits(&api.DiscoveryResponse{TypeUrl: "x"}); err == nil {
		t.Error("a response of another type is taken for one without limits")
	}
}
