package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/internal/cli"
)

// The file that migrate prints is one that validate accepts, includes and all.
func TestMigratePrintsWhatLoads(t *testing.T) {
	t.Parallel()
	testdata := filepath.Join("..", "..", "internal", "migrate", "testdata")
	for conf, want := range map[string]string{"usual.conf": "4 lines were not translated", "everything.conf": "lines were not translated"} {
		code, stdout, stderr := command(t, nil, "migrate", filepath.Join(testdata, conf))
		if code != 0 || !strings.Contains(stderr, want) {
			t.Fatalf("%s: exit %d, %s", conf, code, stderr)
		}
		code, described, stderr := command(t, nil, "validate", "-c", writeFile(t, "migrated.yaml", stdout))
		if code != 0 || stderr != "" || !strings.Contains(described, "burst") {
			t.Errorf("%s: validate: exit %d, %s\n%s", conf, code, stderr, stdout)
		}
	}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const zone = "limit_req_zone $binary_remote_addr zone=a:1m rate=1r/s;\n"
	write("zones.conf", zone)
	good := write("nginx.conf", "include zones.conf;\nhttp { limit_req zone=a burst=4 nodelay; }")
	for _, tt := range []struct {
		args                  []string
		stdin, stdout, stderr string
		code                  int
	}{
		{[]string{good}, "", "burst: 5\n", "", 0},
		{[]string{"-"}, zone + "limit_req zone=a;", "burst: 1\n", "", 0},
		{[]string{"--prefix", dir, "-"}, "include zones.conf; limit_req zone=a;", "burst: 1\n", "", 0},
		{[]string{"-"}, "include zones.conf; limit_req zone=a;", "", "files are not read here", cli.ExitFailure},
		{[]string{"-"}, "limit_req zone=a;", "", "<stdin>:1: limit_req zone=a: there is no limit_req_zone of that name\n", cli.ExitFailure},
		{[]string{"-"}, "", "", "<stdin>: contains no limit_req that can be translated", cli.ExitFailure},
		{[]string{"-"}, "a;\n}", "", "<stdin>:2: a closing brace without an opening one", cli.ExitFailure},
		{[]string{filepath.Join(dir, "none")}, "", "", "none: no such file; check the path\n", cli.ExitFailure},
		{[]string{dir}, "", "", ": is a directory; name the file in it, usually nginx.conf\n", cli.ExitFailure},
		{nil, "", "", `"<conf>"`, cli.ExitUsage},
	} {
		code, stdout, stderr := command(t, strings.NewReader(tt.stdin), append([]string{"migrate"}, tt.args...)...)
		if code != tt.code || !strings.Contains(stdout, tt.stdout) || (tt.stdout == "") != (stdout == "") ||
			!strings.Contains(stderr, tt.stderr) || (tt.stderr == "") != (stderr == "") {
			t.Errorf("%q < %q: exit %d, %q, %q; want %+v", tt.args, tt.stdin, code, stdout, stderr, tt)
		}
	}
}
