//go:build release

package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// inside runs a command in the new system.
func inside(t *testing.T, args ...string) string {
	t.Helper()
	return must(t, ".", "chroot", append([]string{root}, args...)...)
}

const (
	config     = "/etc/fastlimit/fastlimit.yaml"
	ownConfig  = "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nstate_file: /var/lib/fastlimit/state\ndrain: {delay: 0s}\nrules: [{name: per-ip, key: ip, rate: 100/s}]\n"
	configured = "stat -c '%U:%G %a' " + config
)

// writeConfig is what an administrator does.
func writeConfig(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(root, config), []byte(ownConfig), 0o600); err != nil {
		t.Fatal(err)
	}
}

func wantConfig(t *testing.T, want string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(root, config))
	if want == "" && os.IsNotExist(err) {
		return
	}
	if err != nil || string(got) != want {
		t.Errorf("%v: the configuration is\n%s\nwant\n%s", err, got, want)
	}
}

// next is a package of a higher version, whose configuration file has changed too.
func next(t *testing.T, format string) string {
	t.Helper()
	list, err := made.contents("amd64")
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if list[i].config {
			list[i].source = filepath.Join(t.TempDir(), "fastlimit.yaml")
			if err := os.WriteFile(list[i].source, []byte("# another\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	path, err := made.pack(list, filepath.Join(root, "tmp"), format, "amd64", "v99.0.0")
	if err != nil {
		t.Fatal(err)
	}
	return "/tmp/" + filepath.Base(path)
}

// bring copies a file of the release to the new system.
func bring(t *testing.T, pattern string) string {
	t.Helper()
	must(t, ".", "cp", made1(t, pattern), filepath.Join(root, "tmp"))
	return "/tmp/" + filepath.Base(made1(t, pattern))
}

func installed(t *testing.T) {
	t.Helper()
	for command, want := range map[string]string{
		configured:                               "root:fastlimit 640",
		"stat -c '%U:%G %a' /var/lib/fastlimit":  "fastlimit:fastlimit 700",
		"getent passwd fastlimit | cut -d: -f6-": "/var/lib/fastlimit:/usr/sbin/nologin",
		"fastlimit version | head -1":            "fastlimit " + made.version,
	} {
		if got := strings.TrimSpace(inside(t, "sh", "-c", command)); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
	inside(t, "/usr/bin/setpriv", "--reuid=fastlimit", "--regid=fastlimit", "--clear-groups", "fastlimit", "validate", config)
}

// TestInstall goes the way of a package in a new Debian, and then that of the other format, by rpm itself.
func TestInstall(t *testing.T) {
	out := inside(t, "dpkg", "-i", bring(t, "*_amd64.deb"))
	if !strings.Contains(out, "fastlimit is not started yet") {
		t.Error(out)
	}
	installed(t)
	if got := inside(t, "dpkg-query", "-W", "-f", "${Conffiles}", "fastlimit"); !strings.Contains(got, config) {
		t.Errorf("conffiles: %q", got)
	}
	writeConfig(t)
	serves(t)
	out = inside(t, "dpkg", "--force-confold", "-i", next(t, "deb"))
	if strings.Contains(out, "not started yet") {
		t.Error(out)
	}
	if got := inside(t, "dpkg-query", "-W", "-f", "${Version}", "fastlimit"); got != "99.0.0-1" {
		t.Errorf("version %s", got)
	}
	wantConfig(t, ownConfig)
	inside(t, "dpkg", "--remove", "fastlimit")
	wantConfig(t, ownConfig)
	inside(t, "test", "-s", "/var/lib/fastlimit/state")
	inside(t, "dpkg", "--purge", "fastlimit")
	for _, gone := range []string{"/etc/fastlimit", "/var/lib/fastlimit", docs, "/usr/bin/fastlimit"} {
		inside(t, "test", "!", "-e", gone)
	}
	inside(t, "getent", "passwd", "fastlimit")

	inside(t, "userdel", "fastlimit")
	rpm := func(args ...string) {
		t.Helper()
		must(t, ".", "rpm", append([]string{"--root", root, "--nodeps"}, args...)...)
	}
	rpm("-i", made1(t, "*.x86_64.rpm"))
	installed(t)
	writeConfig(t)
	serves(t)
	rpm("-U", filepath.Join(root, next(t, "rpm")))
	wantConfig(t, ownConfig)
	rpm("-e", "fastlimit")
	inside(t, "sh", "-c", "! ls /usr/bin/fastlimit && test -s /var/lib/fastlimit/state && getent passwd fastlimit")
}

// serves starts the unit's command line, as its user, and asks it.
func serves(t *testing.T) {
	t.Helper()
	unit, err := os.ReadFile(filepath.Join(root, units, "fastlimit.service"))
	if err != nil {
		t.Fatal(err)
	}
	start := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindSubmatch(unit)
	if start == nil {
		t.Fatalf("%s", unit)
	}
	cmd := exec.Command("chroot", append([]string{"--userspec=fastlimit:fastlimit", root}, strings.Fields(string(start[1]))...)...)
	logs, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for lines := bufio.NewScanner(logs); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if m := regexp.MustCompile(`is serving" listen=(\S+)`).FindStringSubmatch(lines.Text()); m != nil {
			resp, err := http.Get("http://" + m[1] + "/")
			if err != nil || resp.Body.Close() != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("%v, %v", resp, err)
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
			break
		}
	}
	rest, _ := io.ReadAll(logs)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s%s", err, said.String(), rest)
	}
}
