//go:build nginx

package server

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/internal/policy"
)

// TestNginxRecipe runs the recipe of the documentation, its addresses replaced,
// in a real nginx: go test -tags nginx -run Nginx ./server
func TestNginxRecipe(t *testing.T) {
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		t.Fatal("this test needs nginx with auth_request: apt-get install nginx-light")
	}
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, "app ", r.URL.Path)
	}))
	defer app.Close()
	set := perIP()
	set.TrustedProxies = loopback()
	set.OriginalRequest = policy.OriginalXOriginal
	set.Rules[0].Match.Paths = []string{"/limited/*"}
	s := start(t, set, func(c *Config) { c.Listeners[0].DenyStatus = 403 })
	front := runNginx(t, nginx, s.addr, app.Listener.Addr().String())

	for range 10 {
		if resp := get(t, front+"/free"); resp.StatusCode != 200 {
			t.Fatalf("a path without a rule got %d", resp.StatusCode)
		}
	}
	for range 3 {
		resp := get(t, front+"/limited/x", "X-Original-URI", "/free", "X-Forwarded-For", "203.0.113.9")
		if body := string(readAll(t, resp)); resp.StatusCode != 200 || body != "app /limited/x" {
			t.Fatalf("got %d %q", resp.StatusCode, body)
		}
	}
	resp := get(t, front+"/limited/x", "X-Original-URI", "/free", "X-Forwarded-For", "203.0.113.10")
	if resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "1" ||
		resp.Header.Get("RateLimit") != `"per-ip";r=0;t=1` || resp.Header.Get("RateLimit-Policy") != `"per-ip";q=3;w=3` {
		t.Errorf("got %d %v", resp.StatusCode, resp.Header)
	}
	if resp := send(t, http.MethodPost, front+"/free", strings.Repeat("x", 200_000)); resp.StatusCode != 200 {
		t.Errorf("a body got %d", resp.StatusCode)
	}
}

func TestNginxRecipeDenyList(t *testing.T) {
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		t.Fatal("this test needs nginx with auth_request: apt-get install nginx-light")
	}
	set := perIP()
	set.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	set.Deny = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	s := start(t, set, func(c *Config) { c.Listeners[0].DenyStatus = 403 })
	front := runNginx(t, nginx, s.addr, "127.0.0.1:9")
	if resp := get(t, front+"/"); resp.StatusCode != 403 || resp.Header.Get("Retry-After") != "" {
		t.Errorf("got %d %v", resp.StatusCode, resp.Header)
	}
}

// runNginx returns the URL that nginx serves the recipe at.
func runNginx(t *testing.T, nginx, fastlimit, app string) string {
	t.Helper()
	recipe, err := os.ReadFile("../docs/recipes/nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	free.Close()
	text := strings.NewReplacer("server 127.0.0.1:8080", "server "+fastlimit,
		"listen 127.0.0.1:8000", "listen "+addr, "http://127.0.0.1:3000", "http://"+app).Replace(string(recipe))
	dir := t.TempDir()
	conf := filepath.Join(dir, "nginx.conf")
	text = fmt.Sprintf("daemon off;\nmaster_process off;\npid %[1]s/pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\nclient_body_temp_path %[1]s/body;\nproxy_temp_path %[1]s/proxy;\n%[2]s}\n", dir, text)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(nginx, "-p", dir, "-c", conf)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Signal(os.Interrupt); cmd.Wait() })
	eventually(t, func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return "http://" + addr
}
