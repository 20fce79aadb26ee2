package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/internal/cli"
)

// What serve refuses, validate refuses with the same words.
func TestValidateRefusesWhatServeRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty := writeFile(t, "empty.pem", "not a certificate\n")
	for settings, want := range map[string]string{
		`redis: {url: "redis://127.0.0.1:1/x"}`:                          `redis.url: database "x" is not a number from 0`,
		`redis: {url: "redis://127.0.0.1:1/99999999999"}`:                "is not a number from 0",
		`redis: {url: "redis://127.0.0.1:1/0?max_retries=3"}`:            "query parameter",
		`redis: {url: "redis://127.0.0.1:1/2", cluster: true}`:           "only database 0",
		`redis: {addresses: ["127.0.0.1:1", "127.0.0.1:2"]}`:             "redis.addresses: 2 addresses of one server",
		`redis: {url: "rediss://127.0.0.1:1", ca_file: ` + empty + `}`:   "contains no certificate",
		`redis: {url: "rediss://127.0.0.1:1", ca_file: ` + dir + `}`:     "is a directory",
		`redis: {url: "rediss://127.0.0.1:1", cert_file: ` + empty + `}`: "is set without key_file",
		`listen: localhost:8081`:                                         "localhost:8081 is the default address of admin",
		`listen: ["127.0.0.1:8080", "localhost:8080"]`:                   "localhost:8080 is already used by the listener 127.0.0.1:8080",
		`memory: 1023GiB`: "is more than this machine has",
		`cluster: {name: a, bind: "localhost:8080", secret: 0123456789abcdefgh}`: "is already used by the listener",
	} {
		file := writeFile(t, "c.yaml", settings+"\nrules: [{name: a, rate: 100/s}]\n")
		code1, _, validated := command(t, nil, "validate", "-c", file)
		code2, _, served := command(t, nil, "serve", "-c", file)
		if code1 != cli.ExitFailure || code2 != cli.ExitFailure || validated != served ||
			!strings.HasPrefix(validated, file+":1:") || !strings.Contains(validated, want) {
			t.Errorf("%s:\nvalidate %d %s\nserve %d %s\nwant %s", settings, code1, validated, code2, served, want)
		}
	}
}

// The file may be named with -c, without, or both ways, but it must be one file.
func TestValidateNamesOneFile(t *testing.T) {
	t.Parallel()
	good, other := writeFile(t, "good.yaml", "rules: [{name: piped, rate: 100/s}]\n"), writeFile(t, "other.yaml", "")
	for _, args := range [][]string{{good}, {"-c", good}, {good, "-c", good}, {"-v", good}, {"-"}} {
		stdin := strings.NewReader("rules: [{name: piped, rate: 100/s}]\n")
		if code, stdout, stderr := command(t, stdin, append([]string{"validate"}, args...)...); code != 0 || !strings.Contains(stdout, "piped") || stderr != "" {
			t.Errorf("%v: exit %d, %q, %q", args, code, stdout, stderr)
		}
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{good, "-c", other}, "two files are given, " + good + " and -c " + other + "; remove one of the two\n"},
		{[]string{good, "--rls", "x"}, "a file and --rls are given, " + good + " and x; remove one of the two\n"},
		{[]string{good, other}, "unexpected argument " + other},
		{nil, "no file is given; write fastlimit validate FILE, or --rls DIR\n"},
		{[]string{""}, "no file is given"},
	} {
		if code, stdout, stderr := command(t, nil, append([]string{"validate"}, tt.args...)...); code != cli.ExitUsage || stdout != "" || !strings.HasPrefix(stderr, "fastlimit: "+tt.want) {
			t.Errorf("%v: exit %d, %q, %q; want %q", tt.args, code, stdout, stderr, tt.want)
		}
	}
}

// The file that the documentation shows in full is one that validate accepts.
func TestValidateAcceptsTheExample(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := command(t, nil, "validate", "-c", filepath.Join("..", "..", "fastlimit.example.yaml"))
	if code != 0 || stderr != "" || strings.Contains(stdout, "warning") || !strings.Contains(stdout, "top talkers: 1024 clients of each rule") {
		t.Errorf("exit %d, %s%s", code, stdout, stderr)
	}
}
