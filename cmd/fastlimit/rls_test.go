package main

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/rls/api"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// rls is a running "fastlimit rls".
type rls struct {
	*process

	grpc, http, debug, metrics string

	root string // RUNTIME_ROOT
}

var rlsLine = regexp.MustCompile(`msg="fastlimit rls is serving" grpc=(\S+) http=(\S+) debug=(\S+)(?: metrics=(\S+))?`)

// shop is a file with a limit of two for each user.
const shop = "domain: shop\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 2}}]\n"

// startRLS starts the binary on free ports, with files in the folder where it looks, by
// their names, and variables over the usual ones.
func startRLS(t *testing.T, files map[string]string, env ...string) *rls {
	t.Helper()
	r := &rls{root: t.TempDir()}
	for name, text := range files {
		r.write(t, name, text)
	}
	cmd := exec.Command(binary, "rls")
	cmd.Env = append([]string{
		"HOST=127.0.0.1", "PORT=0", "GRPC_HOST=127.0.0.1", "GRPC_PORT=0", "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=0", "LOG_LEVEL=info",
		"RUNTIME_ROOT=" + r.root, "RUNTIME_SUBDIRECTORY=rl", "REDIS_URL=none", "FASTLIMIT_CLIENTS=4096",
	}, env...)
	r.process = launch(t, cmd)
	addrs := rlsLine.FindStringSubmatch(r.waitLog("fastlimit rls is serving"))
	if addrs == nil {
		t.Fatal("no addresses in the start line")
	}
	r.grpc, r.http, r.debug, r.metrics = addrs[1], addrs[2], addrs[3], addrs[4]
	return r
}

// write puts a file into its folder at once.
func (r *rls) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(r.root, "rl", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+"~", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		t.Fatal(err)
	}
}

func (r *rls) dial(t *testing.T, creds credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient(r.grpc, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ask calls with one descriptor of one entry.
func ask(ctx context.Context, c *grpc.ClientConn, domain, key, value string) (*api.RateLimitResponse, error) {
	out := new(api.RateLimitResponse)
	err := c.Invoke(ctx, "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", &api.RateLimitRequest{
		Domain: domain, Descriptors: []*api.RateLimitDescriptor{{Entries: []*api.RateLimitDescriptor_Entry{{Key: key, Value: value}}}},
	}, out)
	return out, err
}

// remaining is what is left of a limit, and -1 over it.
func remaining(t *testing.T, c *grpc.ClientConn, key, value string) int {
	t.Helper()
	out, err := ask(t.Context(), c, "shop", key, value)
	if err != nil {
		t.Fatal(err)
	}
	if out.GetOverallCode() == api.RateLimitResponse_OVER_LIMIT {
		return -1
	}
	return int(out.GetStatuses()[0].GetLimitRemaining())
}

// page is what is at a path, with the status before it.
func page(t *testing.T, method, url, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(resp.Status[:4] + string(text))
}

// TestRLS: gRPC and JSON give the same answers from the same counters.
func TestRLS(t *testing.T) {
	t.Parallel()
	r := startRLS(t, map[string]string{"config/a.yaml": shop}, "USE_PROMETHEUS=true", "PROMETHEUS_ADDR=127.0.0.1:0", "PROMETHEUS_PATH=/m")
	c := r.dial(t, insecure.NewCredentials())
	const user = `{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"a"}]}]}`
	if got := remaining(t, c, "user", "a"); got != 1 {
		t.Errorf("the first: %d left", got)
	}
	if got := strings.ReplaceAll(page(t, "POST", "http://"+r.http+"/json", user), " ", ""); !strings.HasPrefix(got, `200{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"requestsPerUnit":2,"unit":"YEAR"},"durationUntilReset":"`) {
		t.Errorf("the second: %s", got)
	}
	if got := remaining(t, c, "user", "a"); got != -1 {
		t.Errorf("the third: %d left", got)
	}
	if got := page(t, "POST", "http://"+r.http+"/json", user); !strings.HasPrefix(got, "429 ") {
		t.Errorf("the fourth: %s", got)
	}
	for body, want := range map[string]string{
		"": "400 Bad Request", "{": "400 Bad Request", `{"domain":"shop"}`: "400 Bad Request", `{"foo":1}`: "400", `{"domain":"other","descriptors":[{}]}`: "200",
		strings.Replace(user, `]}]`, `],"limit":{"requests_per_unit":5}}]`, 1): "400", // no unit
	} {
		if got := page(t, "POST", "http://"+r.http+"/json", body); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	resp, err := http.Post("http://"+r.http+"/json", "", strings.NewReader(`{"domain":"","descriptors":[{}]}`))
	if err != nil || resp.Body.Close() != nil || resp.Header.Get("Grpc-Message") != "rate limit domain must not be empty" {
		t.Errorf("the reason: %v, %v", resp, err)
	}
	if _, err := ask(t.Context(), c, "", "user", "a"); status.Code(err) != codes.InvalidArgument {
		t.Errorf("no domain: %v", err)
	}
	if got := page(t, "GET", "http://"+r.debug+"/rlconfig", ""); got != "200 shop.user: unit=YEAR requests_per_unit=2, shadow_mode: false, quota_mode: false" {
		t.Errorf("/rlconfig: %s", got)
	}
	health, err := grpc_health_v1.NewHealthClient(c).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "ratelimit"})
	if err != nil || health.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING || page(t, "GET", "http://"+r.http+"/healthcheck", "") != "200 OK" {
		t.Errorf("health: %v, %v", health, err)
	}
	metrics := page(t, "GET", "http://"+r.metrics+"/m", "") + "\n"
	for _, want := range []string{
		`ratelimit_service_rate_limit_total_hits{domain="shop",key1="user",key2=""} 4`, `ratelimit_service_rate_limit_over_limit{domain="shop",key1="user",key2=""} 2`,
		"ratelimit_service_config_load_success 1", `ratelimit_service_total_requests{grpc_method="ShouldRateLimit"} 3`,
		`ratelimit_service_should_rate_limit_error{err_type="service_error"} 4`,
	} {
		if !strings.Contains(metrics, "\n"+want+"\n") {
			t.Errorf("metrics lack %s", want)
		}
	}
	r.signal(syscall.SIGTERM)
	if code := r.wait(); code != 128+int(syscall.SIGTERM) && code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestRLSFollowsFiles: good files count within two seconds, bad ones are named, and counts
// stay.
func TestRLSFollowsFiles(t *testing.T) {
	t.Parallel()
	r := startRLS(t, map[string]string{"config/a.yaml": "domain: ["}, "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED=true")
	c := r.dial(t, insecure.NewCredentials())
	if _, err := ask(t.Context(), c, "shop", "user", "a"); status.Code(err) != codes.Unavailable {
		t.Errorf("without limits: %v", err)
	}
	if got := page(t, "GET", "http://"+r.http+"/healthcheck", ""); got != "500" {
		t.Errorf("healthy without limits: %s", got)
	}
	r.write(t, "config/a.yaml", shop)
	r.waitLog("the configuration is in force")
	if got := remaining(t, c, "user", "a"); got != 1 || page(t, "GET", "http://"+r.http+"/healthcheck", "") != "200 OK" {
		t.Errorf("after the first good file: %d left", got)
	}
	r.write(t, "config/b.yaml", "domain: shop\ndescriptors: 5\n")
	if got := r.waitLog("b.yaml:2:"); !strings.Contains(got, `b.yaml:2:14: descriptors: is \"5\"; want a list`) {
		t.Errorf("the bad file: %s", got)
	}
	r.waitLog("the limits in force stay")
	r.write(t, "config/b.yaml", "domain: other\n")
	r.write(t, "config/a.yaml", strings.Replace(shop, "requests_per_unit: 2", "requests_per_unit: 5", 1))
	r.waitLog("the configuration is in force")
	if got := remaining(t, c, "user", "a"); got != 3 {
		t.Errorf("%d left of the larger limit, want 3", got)
	}
	if err := os.Rename(filepath.Join(r.root, "rl"), filepath.Join(r.root, "away")); err != nil {
		t.Fatal(err)
	}
	r.waitLog("the limits in force stay")
	if got := remaining(t, c, "user", "a"); got != 2 {
		t.Errorf("%d left without files, want 2", got)
	}
	if err := os.Rename(filepath.Join(r.root, "away"), filepath.Join(r.root, "rl")); err != nil {
		t.Fatal(err)
	}
	r.waitLog("the configuration is in force")
	r.signal(syscall.SIGHUP)
	r.waitLog("the configuration is in force")
}

// TestRLSAsRatelimit: a link with upstream's name is the service, whatever its arguments.
func TestRLSAsRatelimit(t *testing.T) {
	t.Parallel()
	link := filepath.Join(t.TempDir(), "ratelimit")
	if err := os.Symlink(binary, link); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(link, "--whatever", "x")
	cmd.Env = []string{"PORT=0", "GRPC_UDS=" + filepath.Join(t.TempDir(), "s"), "DEBUG_PORT=0", "USE_STATSD=true", "LOG_FORMAT=json", "SOMETHING=else"}
	p := launch(t, cmd)
	p.waitLog("warning: arguments are ignored")
	p.waitLog("REDIS_URL is not set")
	p.waitLog("without effect here: USE_STATSD")
	if line := p.waitLog("fastlimit rls is serving"); !strings.HasPrefix(line, "{") {
		t.Errorf("not JSON: %s", line)
	}
}

func TestRLSTLS(t *testing.T) {
	t.Parallel()
	cert, client := redistest.NewCertificate(t, time.Now().Add(time.Hour)), redistest.NewCertificate(t, time.Now().Add(time.Hour))
	r := startRLS(t, map[string]string{"config/a.yaml": shop}, "GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT="+cert.CertFile,
		"GRPC_SERVER_TLS_KEY="+cert.KeyFile, "GRPC_CLIENT_TLS_CACERT="+client.CertFile, "GRPC_CLIENT_TLS_SAN=127.0.0.1")
	_, trust := cert.Configs(t)
	shown := trust.Clone()
	pair, err := tls.LoadX509KeyPair(client.CertFile, client.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	shown.Certificates = []tls.Certificate{pair}
	if got := remaining(t, r.dial(t, credentials.NewTLS(shown)), "user", "a"); got != 1 {
		t.Errorf("%d left", got)
	}
	if _, err := ask(t.Context(), r.dial(t, credentials.NewTLS(trust)), "shop", "user", "a"); status.Code(err) != codes.Unavailable {
		t.Errorf("without a certificate: %v", err)
	}
	second := redistest.NewCertificate(t, time.Now().Add(2*time.Hour))
	for from, to := range map[string]string{second.CertFile: cert.CertFile, second.KeyFile: cert.KeyFile} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	_, trust = cert.Configs(t)
	trust.Certificates = shown.Certificates
	if got := remaining(t, r.dial(t, credentials.NewTLS(trust)), "user", "a"); got != 0 {
		t.Errorf("with the new certificate: %d left", got)
	}
}
