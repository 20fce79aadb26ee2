package env

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/sync/gossip"
)

const secretText = "0123456789abcdef"

func secretFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCluster(t *testing.T) {
	t.Parallel()
	vars := map[string]string{"FASTLIMIT_CLUSTER_BIND": "10.0.0.1:7946", "FASTLIMIT_CLUSTER_SECRET_FILE": secretFile(t, secretText+"\n")}
	want := &gossip.Config{Name: "rls", Bind: "10.0.0.1:7946", Secret: secretText, MaxBytes: 64 << 10}
	if s, warnings, err := readFrom(vars); err != nil || len(warnings) > 0 || !reflect.DeepEqual(s.Cluster, want) {
		t.Errorf("%v, %v\ngot  %+v\nwant %+v", err, warnings, s.Cluster, want)
	}
	vars["FASTLIMIT_CLUSTER_JOIN"], vars["REDIS_URL"] = "nodes.rls.svc:7946, 10.0.0.2:7946", "None"
	want.Join = []string{"nodes.rls.svc:7946", "10.0.0.2:7946"}
	if s, warnings, err := readFrom(vars); err != nil || len(warnings) > 0 || !reflect.DeepEqual(s.Cluster, want) {
		t.Errorf("%v, %v\ngot  %+v\nwant %+v", err, warnings, s.Cluster, want)
	}
	if s, warnings, err := readFrom(map[string]string{"FASTLIMIT_CONFIG": "f"}); err != nil || len(warnings) > 0 || s.ConfigFile != "f" || s.Cluster != nil {
		t.Errorf("of a file: %v, %v, %+v", err, warnings, s)
	}
}

// TestClusterMistakes name the variable, and show no secret.
func TestClusterMistakes(t *testing.T) {
	t.Parallel()
	good, short := secretFile(t, secretText), secretFile(t, "hidden")
	const bind, join, secret = "FASTLIMIT_CLUSTER_BIND", "FASTLIMIT_CLUSTER_JOIN", "FASTLIMIT_CLUSTER_SECRET_FILE"
	for want, vars := range map[string]map[string]string{
		join + " is set without " + bind:                             {join: "a:1"},
		secret + " is set without " + bind:                           {secret: good},
		secret + " is missing: name a file":                          {bind: "a:1"},
		secret + `: "/none" no such file: name a file`:               {bind: "a:1", secret: "/none"},
		secret + ": 6 characters are too few: want 16 or more":       {bind: "a:1", secret: short},
		join + `: "b" is not the address of a node: write host:port`: {bind: "a:1", secret: good, join: "a:1,b"},
		bind + " is set, and REDIS_URL too":                          {bind: "a:1", secret: good, "REDIS_URL": "r:1"},
		bind + " is set, and FASTLIMIT_CONFIG too":                   {bind: "a:1", secret: good, "FASTLIMIT_CONFIG": "f"},
		"FASTLIMIT_CONFIG is set, and REDIS_URL too":                 {"FASTLIMIT_CONFIG": "f", "REDIS_URL": "r:1"},
	} {
		_, _, err := readFrom(vars)
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %v, want %s", vars, err, want)
		}
	}
}
