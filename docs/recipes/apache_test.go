package recipes_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// apacheRoot is what Debian's apache2.conf has around a site, in one process.
const apacheRoot = `ServerRoot %[1]s
ServerName example.com
PidFile %[1]s/pid
DefaultRuntimeDir %[1]s
Mutex pthread
User %[2]s
Group %[3]s
ErrorLog /dev/stderr
ServerLimit 1
ThreadsPerChild 32
MaxRequestWorkers 32
`

func startApache(t *testing.T, o options) string {
	t.Helper()
	var edits []string
	if o.closed {
		edits = append(edits, "fail_open = true", "fail_open = false")
	}
	if o.byKey {
		edits = append(edits, "passed = {}", `passed = {"X-Api-Key"}`)
	}
	if !o.inTime {
		edits = append(edits, "timeout_ms = 100", "timeout_ms = "+patience)
	}
	host, port, err := net.SplitHostPort(o.limiter)
	if err != nil {
		t.Fatal(err)
	}
	edits = append(edits, `"127.0.0.1", 8080`, fmt.Sprintf("%q, %s", host, port))
	return runApache(t, "apache.conf", o, []string{"mpm_event", "authz_core", "headers", "lua", "proxy", "proxy_http"},
		func(dir string) []string {
			return []string{"/etc/apache2/apache.lua", writeAs(t, dir, "apache.lua", edited(t, "apache.lua", edits...))}
		})
}

// runApache runs a site. more are the edits that need the server's directory.
func runApache(t *testing.T, file string, o options, modules []string, more func(dir string) []string) string {
	t.Helper()
	return runApacheWith(t, modules, func(dir, addr string) string { return recipe(t, file, addr, &o, more(dir)...) })
}

// runApacheWith runs what site says.
func runApacheWith(t *testing.T, modules []string, site func(dir, addr string) string) string {
	t.Helper()
	program, dir, user, group := find(t, "apache2", "apache2"), t.TempDir(), fmt.Sprint("#", os.Getuid()), fmt.Sprint("#", os.Getgid())
	if os.Getuid() == 0 {
		user, group = "www-data", "www-data" // Apache refuses to serve as root, and gives up root's rights
		for _, d := range []string{filepath.Dir(dir), dir} {
			if err := os.Chmod(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	return runFront(t, func(addr string) *exec.Cmd {
		var text strings.Builder
		fmt.Fprintf(&text, apacheRoot, dir, user, group)
		for _, m := range modules {
			fmt.Fprintf(&text, "LoadModule %s_module /usr/lib/apache2/modules/mod_%[1]s.so\n", m)
		}
		text.WriteString(site(dir, addr))
		return exec.Command(program, "-X", "-f", write(t, dir, text.String()))
	})
}
