//go:build image

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/fastlimit/fastlimit/internal/rls/api"
	"github.com/fastlimit/fastlimit/internal/testkit/plane"
	"google.golang.org/grpc/credentials/insecure"
)

// TestImage runs the image's files as the image would, with the environment that Envoy
// Gateway gives to its rate limit service: no other files, no rights, nothing to write to.
func TestImage(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Fatal("another root folder takes root: run make test-image as root")
	}
	root := filepath.Join(t.TempDir(), "image")
	build := exec.Command("make", "--no-print-directory", "image-root", "DIR="+root)
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for dir := root; dir != "/"; dir = filepath.Dir(dir) { // folders of tests are closed to others
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, info.Mode()|0o055); err != nil {
			t.Fatal(err)
		}
	}
	p := plane.New(0)
	p.Set(plane.Limit(t, "shop", 2, api.Unit_YEAR))
	cmd := exec.Command("/bin/ratelimit")
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	cmd.Dir = "/"
	cmd.Env = []string{
		"RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_IGNOREDOTFILES=true", "RUNTIME_WATCH_ROOT=false", "LOG_LEVEL=info",
		"USE_STATSD=false", "CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL=" + p.Serve(t, "127.0.0.1:0"), "CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit",
		"GRPC_SERVER_USE_TLS=false", "GRPC_SERVER_TLS_CA_CERT=/certs/ca.crt", "CONFIG_GRPC_XDS_SERVER_USE_TLS=false", "FORCE_START_WITHOUT_INITIAL_CONFIG=true",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=none", "USE_PROMETHEUS=true", "PROMETHEUS_ADDR=127.0.0.1:0", "PROMETHEUS_MAPPER_YAML=/etc/statsd-exporter/conf.yaml",
		"HOST=127.0.0.1", "PORT=0", "GRPC_PORT=0", "DEBUG_PORT=0",
	}
	r := &rls{process: launch(t, cmd)}
	r.grpc = rlsLine.FindStringSubmatch(r.waitLog("fastlimit rls is serving"))[1]
	r.waitLog("the configuration is in force")
	if got := remaining(t, r.dial(t, insecure.NewCredentials()), "k", ""); got != 1 {
		t.Errorf("%d left", got)
	}
}
