package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const unitFolder = "../../deploy/systemd"

// readUnit is a unit as it is shipped.
func readUnit(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(unitFolder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestUnits: systemd knows every setting of the units, and finds the service hardened: below
// 2.0 of 10. What is left of that are the network and one capability, by their nature.
func TestUnits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var paths []string
	for _, name := range []string{"fastlimit.service", "fastlimit.socket"} {
		path := filepath.Join(dir, name)
		here := strings.ReplaceAll(readUnit(t, name), "/usr/bin/fastlimit", binary)
		if err := os.WriteFile(path, []byte(here), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	if out, err := exec.Command("systemd-analyze", append([]string{"verify", "--man=no"}, paths...)...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("verify: %v\n%s", err, out)
	}
	if out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=20", paths[0]).CombinedOutput(); err != nil {
		t.Errorf("security: %v\n%s", err, out)
	}
}

// TestUnitsStartTheService: the service's own command line serves on the socket that the other unit
// passes, under the name that it gives it.
func TestUnitsStartTheService(t *testing.T) {
	t.Parallel()
	service, socket := readUnit(t, "fastlimit.service"), readUnit(t, "fastlimit.socket")
	file := writeFile(t, "fastlimit.yaml", strict+"listen: systemd:http\nadmin: 127.0.0.1:0\n")
	args := strings.Fields(strings.ReplaceAll(find1(t, service, "ExecStart=/usr/bin/fastlimit serve (.*)"), "/etc/fastlimit/fastlimit.yaml", file))
	f, address := socketFile(t, "tcp", "127.0.0.1:0")
	start(t, activated(find1(t, socket, "FileDescriptorName=(.*)"), []*os.File{f}, args...))
	if got := statusFor(t, "http://"+address+"/", "192.0.2.1"); got != http.StatusOK {
		t.Errorf("status %d", got)
	}
}

func find1(t *testing.T, text, pattern string) string {
	t.Helper()
	m := regexp.MustCompile("(?m)^" + pattern + "$").FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no line %s", pattern)
	}
	return m[1]
}
