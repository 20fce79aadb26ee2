//go:build release

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnits: systemd finds nothing to complain of in the units of the package.
func TestUnits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, ".", "dpkg-deb", "-x", made1(t, "*_amd64.deb"), dir)
	must(t, dir, "sed", "-i", "s#/usr/bin/fastlimit#"+dir+"&#", "."+units+"fastlimit.service")
	if out := must(t, dir+units, "systemd-analyze", "verify", "--man=no", "./fastlimit.service", "./fastlimit.socket"); out != "" {
		t.Error(out)
	}
}

// TestScripts: what they ask of systemd where it runs, by the arguments of dpkg and of rpm.
func TestScripts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	asked := filepath.Join(dir, "asked")
	if err := os.WriteFile(filepath.Join(dir, "systemctl"), []byte("#!/bin/sh\necho \"$*\" >>"+asked+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	const (
		reload  = "daemon-reload\n"
		restart = reload + "try-restart fastlimit.service\n"
		end     = "stop fastlimit.socket fastlimit.service\n--quiet disable fastlimit.socket fastlimit.service\n"
	)
	for _, c := range []struct{ script, args, want string }{
		{"postinst", "configure", reload},
		{"postinst", "configure 1.0.0-1", restart},
		{"postinst", "abort-upgrade 1.0.0-1", reload},
		{"postinst", "1", reload},
		{"postinst", "2", restart},
		{"prerm", "remove", end},
		{"prerm", "upgrade 1.0.0-1", ""},
		{"prerm", "0", end},
		{"prerm", "1", ""},
		{"postrm", "remove", reload},
		{"postrm", "0", reload},
	} {
		os.Remove(asked)
		cmd := exec.Command("sh", append([]string{"-c", systemdRuns, "scripts/" + c.script}, strings.Fields(c.args)...)...)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s %s: %v\n%s", c.script, c.args, err, out)
		}
		if got, _ := os.ReadFile(asked); string(got) != c.want {
			t.Errorf("%s %s asks\n%s\nwant\n%s", c.script, c.args, got, c.want)
		}
	}
}

// systemdRuns runs a script as if systemd ran, which is known by a folder.
const systemdRuns = `sed 's#/run/systemd/system#/tmp#' "$0" | sh -s -- "$@"`
