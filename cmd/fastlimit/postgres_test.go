package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/pgtest"
)

// Two processes on one PostgreSQL, whose user has nothing but what --grant gives.
func TestTwoNodesOnePostgres(t *testing.T) {
	severalPrograms(t)
	t.Parallel()
	db := pgtest.Start(t)
	db.Do("CREATE ROLE node LOGIN")
	file := writeFile(t, "postgres.yaml", fmt.Sprintf("postgres: {url: %q, timeout: 200ms}\nrules: [{name: r, key: ip, rate: %d/s, burst: %d}]\n", db.URL("node", "postgres"), pairRate, pairBurst))

	// Without the schema a node names the command that makes it.
	if code, _, stderr := command(t, nil, "serve", "-c", file, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"); code != 1 || !strings.Contains(stderr, "fastlimit store init") {
		t.Fatalf("serve without a schema: %d, %s", code, stderr)
	}
	if code, stdout, stderr := command(t, nil, "store", "init", "--postgres", db.URL("postgres", "postgres"), "--grant", "node", "--unlogged"); code != 0 || !strings.Contains(stdout, "version 2") {
		t.Fatalf("store init: %d, %s%s", code, stdout, stderr)
	}
	nodes := []*process{serve(t, "-c", file), serve(t, "-c", file)}

	floodPair(t, nodes, `fastlimit_postgres_operations_total{operation="take"}`)
	for _, p := range nodes {
		if _, info := get(t, http.DefaultClient, "http://"+p.admin+"/v1/info"); !strings.Contains(info, `"postgres":{"state":"closed"`) && !strings.Contains(info, `"postgres": {`) {
			t.Errorf("/v1/info: %s", info)
		}
	}
}

// Where every rule needs the store, a node that has lost it is not ready.
func TestReadinessWithPostgres(t *testing.T) {
	t.Parallel()
	db := pgtest.Start(t)
	if code, _, stderr := command(t, nil, "store", "init", "--postgres", db.URL("postgres", "postgres")); code != 0 {
		t.Fatal(stderr)
	}
	file := writeFile(t, "postgres.yaml", fmt.Sprintf("postgres: {url: %q, timeout: 1s}\nrules: [{name: r, key: ip, rate: 5/s, on_failure: closed}]\n", db.URL("postgres", "postgres")))
	db.Kill()
	p := serve(t, "-c", file)
	if resp, body := get(t, http.DefaultClient, "http://"+p.admin+"/readyz"); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "postgres is down") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	db.Run()
	testkit.Eventually(t, "to be ready", func() bool {
		resp, _ := get(t, http.DefaultClient, "http://"+p.admin+"/readyz")
		return resp.StatusCode == http.StatusOK
	})
}

func TestStoreInitUsage(t *testing.T) {
	t.Parallel()
	plain := writeFile(t, "plain.yaml", "rules: [{name: a, rate: 1/s}]\n")
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"", 2, "want -c FILE, --postgres URL or --print"},
		{"-c " + plain, 1, "the file has no postgres"},
		{"--postgres mysql://u:s3cret@h/d", 2, `scheme "mysql" is not postgres`},
		{"--postgres postgres://u:s3cret@127.0.0.1:1/d", 1, "refused"},
		{"--print --schema Bad", 2, "is not a name"},
		{"--print --schema limits --unlogged --grant a\"b", 0, `CREATE UNLOGGED TABLE IF NOT EXISTS limits.bucket`},
		{"--print --grant a\"b", 0, `GRANT USAGE ON SCHEMA fastlimit TO "a""b"`},
	} {
		code, stdout, stderr := command(t, nil, append([]string{"store", "init"}, strings.Fields(tt.args)...)...)
		if code != tt.code || !strings.Contains(stdout+stderr, tt.want) || strings.Contains(stdout+stderr, "s3cret") {
			t.Errorf("%s: %d\n%s%s\nwant %d, %s", tt.args, code, stdout, stderr, tt.code, tt.want)
		}
		if strings.Contains(tt.args, "limits") && strings.Contains(stdout, "fastlimit.") {
			t.Errorf("%s: names the default schema", tt.args)
		}
	}
}

// postgresNode is a node on a PostgreSQL of its own.
func postgresNode(t *testing.T) *process {
	t.Helper()
	db := pgtest.Start(t)
	if code, _, stderr := command(t, nil, "store", "init", "--postgres", db.URL("postgres", "postgres")); code != 0 {
		t.Fatal(stderr)
	}
	return serve(t, "-c", writeFile(t, "postgres.yaml", fmt.Sprintf("postgres: {url: %q}\nrules: [{name: r, rate: 5/s}]\n", db.URL("postgres", "postgres"))))
}
