package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/fastlimit/fastlimit/internal/rls/api"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// rlsPeer is one of the nodes that count together.
type rlsPeer struct {
	*rls

	conn *grpc.ClientConn
}

// startRLSPeer starts one with a limit of 100 for each user.
func startRLSPeer(t *testing.T, env ...string) *rlsPeer {
	t.Helper()
	const limit = "domain: shop\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 100}}]\n"
	r := startRLS(t, map[string]string{"config/a.yaml": limit}, append(env, "USE_PROMETHEUS=true", "PROMETHEUS_ADDR=127.0.0.1:0")...)
	return &rlsPeer{r, r.dial(t, insecure.NewCredentials())}
}

var bindOf = regexp.MustCompile(`msg="counting with other nodes".* bind=(\S+)`)

// bind is where the others reach it.
func (r *rlsPeer) bind(t *testing.T) string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	bind := bindOf.FindStringSubmatch(r.log.String())
	if bind == nil {
		t.Fatal("no address of the cluster")
	}
	return bind[1]
}

// left is what is left for a user, who is charged nothing.
func (r *rlsPeer) left(t *testing.T, user string) int {
	t.Helper()
	out := new(api.RateLimitResponse)
	if err := r.conn.Invoke(t.Context(), "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", &api.RateLimitRequest{
		Domain: "shop", Descriptors: []*api.RateLimitDescriptor{{
			Entries: []*api.RateLimitDescriptor_Entry{{Key: "user", Value: user}}, HitsAddend: wrapperspb.UInt64(0),
		}},
	}, out); err != nil {
		t.Fatal(err)
	}
	return int(out.GetStatuses()[0].GetLimitRemaining())
}

// hit charges a user.
func (r *rlsPeer) hit(t *testing.T, user string, n int) {
	t.Helper()
	for range n {
		remaining(t, r.conn, "user", user)
	}
}

func (r *rlsPeer) hears(t *testing.T, user string, left int) {
	t.Helper()
	redistest.Eventually(t, fmt.Sprintf("%d left for %s", left, user), func() bool { return r.left(t, user) == left })
}

func (r *rlsPeer) shows(t *testing.T, metric *regexp.Regexp) bool {
	t.Helper()
	return metric.MatchString(page(t, "GET", "http://"+r.metrics+"/metrics", ""))
}

func (r *rlsPeer) hasPeers(t *testing.T, n int) {
	t.Helper()
	want := regexp.MustCompile(fmt.Sprintf("(?m)^ratelimit_service_cluster_peers %d$", n))
	redistest.Eventually(t, fmt.Sprintf("%d peers", n), func() bool { return r.shows(t, want) })
}

// TestRLSNodes: three processes without Redis count together, also one that starts late, and
// what was counted at one that ends.
func TestRLSNodes(t *testing.T) {
	t.Parallel()
	env := []string{"FASTLIMIT_CLUSTER_BIND=127.0.0.1:0", "FASTLIMIT_CLUSTER_SECRET_FILE=" + writeFile(t, "secret", "0123456789abcdef\n")}
	a := startRLSPeer(t, env...)
	env = append(env, "FASTLIMIT_CLUSTER_JOIN="+a.bind(t))
	b := startRLSPeer(t, env...)
	a.hasPeers(t, 1)
	b.hasPeers(t, 1)
	a.hit(t, "x", 40)
	b.hears(t, "x", 60)
	b.hit(t, "x", 30)
	a.hears(t, "x", 30)
	late := startRLSPeer(t, env...)
	late.hears(t, "x", 30)
	late.hit(t, "x", 20)
	a.hears(t, "x", 10)
	b.hit(t, "x", 2)
	b.signal(syscall.SIGTERM) // what it has counted since the last exchange is told
	if code := b.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	a.hears(t, "x", 8)
	late.hears(t, "x", 8)
	late.hit(t, "x", 9)
	a.hears(t, "x", 0)
	if got := remaining(t, a.conn, "user", "x"); got != -1 {
		t.Errorf("%d left of 100 after 102", got)
	}
	a.signal(syscall.SIGKILL)
	a.wait()
	late.hasPeers(t, 0)
	if got := late.left(t, "x"); got != 0 || page(t, "GET", "http://"+late.http+"/healthcheck", "") != "200 OK" {
		t.Errorf("alone: %d left, or not healthy", got)
	}
}

// TestRLSNodesOfFile takes the cluster from the file of a node that serves, which is none of
// this cluster. One with another secret stays outside.
func TestRLSNodesOfFile(t *testing.T) {
	t.Parallel()
	const file = "rules: [{name: a, rate: 10/s}]\ncluster: {name: edge, bind: \"127.0.0.1:0\", secret: %s, join: [%q]}\n"
	config := func(secret, join string) string {
		return writeFile(t, "c.yaml", fmt.Sprintf(file, secret, join))
	}
	const secret, nobody = "0123456789abcdef", "127.0.0.1:1"
	a := startRLSPeer(t, "FASTLIMIT_CONFIG="+config(secret, nobody))
	b := startRLSPeer(t, "FASTLIMIT_CONFIG="+config(secret, a.bind(t)))
	start(t, exec.Command(binary, "serve", "-c", config(secret, a.bind(t)), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"))
	stranger := startRLSPeer(t, "FASTLIMIT_CONFIG="+config(strings.Repeat(secret, 2), a.bind(t)))
	stranger.hit(t, "x", 50)
	a.hit(t, "x", 3)
	b.hears(t, "x", 97)
	rejected := regexp.MustCompile(`(?m)^ratelimit_service_cluster_rejected [1-9]`)
	redistest.Eventually(t, "strangers are rejected", func() bool { return a.shows(t, rejected) })
	a.hasPeers(t, 1)
	if got := a.left(t, "x"); got != 97 {
		t.Errorf("%d left", got)
	}
}
