package main

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// readiness asks for /readyz.
func (p *process) readiness(t *testing.T) (status int, body string) {
	t.Helper()
	resp, body := get(t, http.DefaultClient, "http://"+p.admin+"/readyz")
	return resp.StatusCode, body
}

// A node that is started under the name of another gets no requests from a load
// balancer that asks whether it is ready, and says why, until that one is gone.
func TestNameTaken(t *testing.T) {
	t.Parallel()
	node := func(name string, seeds ...string) *process {
		return serve(t, "-c", writeFile(t, name+".yaml", "rules: [{name: per-ip, rate: 20/s, burst: 20}]\n"+
			clusterSettings(name, "127.0.0.1:0", seeds)))
	}
	first := node("n0")
	other := node("n1", first.clusterAddr(t))
	other.waitPeers(t, 1)
	later := node("n0", other.clusterAddr(t))
	redistest.Eventually(t, "the later one not to be ready", func() bool {
		status, _ := later.readiness(t)
		return status == http.StatusServiceUnavailable
	})
	if _, body := later.readiness(t); !strings.Contains(body, `has the name "n0" too`) || !strings.Contains(body, "set cluster.node") {
		t.Errorf("%s", body)
	}
	if got := later.metric(t, "fastlimit_sync_name_taken"); got != 1 {
		t.Errorf("name_taken %v", got)
	}
	for _, p := range []*process{first, other} {
		if status, body := p.readiness(t); status != http.StatusOK || p.metric(t, "fastlimit_sync_name_taken") != 0 {
			t.Errorf("%d %s", status, body)
		}
	}
	first.signal(syscall.SIGTERM)
	first.wait()
	redistest.Eventually(t, "the later one to be ready", func() bool {
		status, _ := later.readiness(t)
		return status == http.StatusOK
	})
	later.waitPeers(t, 1)
	later.mu.Lock()
	defer later.mu.Unlock()
	if n := strings.Count(later.log.String(), "started before it"); n != 1 {
		t.Errorf("said %d times", n)
	}
}
