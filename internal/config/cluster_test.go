package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/sync/gossip"
)

func withCluster(settings string) string {
	return "cluster: {" + settings + "}\nrules: [{name: a, rate: 10/s}]\n"
}

const leanCluster = `name: edge, bind: "10.0.0.1:7946", secret: 0123456789abcdef`

func TestCluster(t *testing.T) {
	t.Parallel()
	lean := Cluster{Config: gossip.Config{
		Name: "edge", Bind: "10.0.0.1:7946", Secret: "0123456789abcdef",
		Interval: 100 * time.Millisecond, MaxBytes: 16 << 10, MaxNodes: 32,
	}, TopTalkers: 8192}
	full := lean
	full.Node, full.Advertise, full.Join, full.Ignore = "a:1", "192.0.2.7:7946", []string{"10.0.0.2:7946", "edge-3:7946"}, []string{"edge-4"}
	full.Interval, full.MaxBytes, full.MaxNodes, full.TopTalkers, full.AcceptBans = 20*time.Millisecond, 32<<10, 5, 1024, true
	for text, want := range map[string]Cluster{
		leanCluster: lean,
		leanCluster + `, node: "a:1", advertise: "192.0.2.7:7946", join: ["10.0.0.2:7946", "Edge-3:7946"], ignore: [edge-4], interval: 20ms,
  max_bytes: 32KiB, max_nodes: 5, top_talkers: 1024, accept_bans: true`: full,
		`name: edge, bind: 10.0.0.1:7946, secret: "${S}"`: lean,
	} {
		env := func(name string) (string, bool) { return "0123456789abcdef", name == "S" }
		c, err := Parse("f.yaml", []byte(withCluster(text)), env)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if !reflect.DeepEqual(*c.Cluster, want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", text, *c.Cluster, want)
		}
	}
	if c := mustParse(t, "rules: [{name: a, rate: 10/s}]"); c.Cluster != nil {
		t.Error("a cluster that nobody named")
	}
}

func TestClusterErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{``, "f.yaml:1:10: cluster.name: missing; give all nodes the same one"},
		{``, "f.yaml:1:10: cluster.bind: missing; write the address"},
		{``, "f.yaml:1:10: cluster.secret: missing; set secret or secret_file; write the same random text"},
		{`name: "a b"`, `f.yaml:1:17: cluster.name: "a b" is not a name; want a name of 1 to 64 letters`},
		{`bind: "127.0.0.1"`, `cluster.bind: "127.0.0.1" is not host:port`},
		{`bind: "127.0.0.1:8080"`, "cluster.bind: 127.0.0.1:8080 is already used by the listener 127.0.0.1:8080; give the cluster its own port"},
		{`bind: "0.0.0.0:8081"`, "cluster.bind: 0.0.0.0:8081 is already used by admin; give"},
		{`secret: hunter2sEcret`, "cluster.secret: 13 characters are too few; want 16 or more; write the same random text"},
		{`secret: 0123456789abcdef, secret_file: x`, "cluster.secret_file: secret is set too; remove one"},
		{`secret_file: /does/not/exist`, `cluster.secret_file: "/does/not/exist" is not read here`},
		{`join: "10.0.0.2:7946"`, `cluster.join: found the text "10.0.0.2:7946"; want a list such as`},
		{`join: ["10.0.0.2", ":7946", "10.0.0.2:0"]`, `cluster.join[0]: "10.0.0.2" is not host:port`},
		{`join: ["10.0.0.2", ":7946", "10.0.0.2:0"]`, `cluster.join[1]: ":7946" is not the address of a node; write host:port`},
		{`join: ["10.0.0.2", ":7946", "10.0.0.2:0"]`, `cluster.join[2]: "10.0.0.2:0" is not the address of a node`},
		{`join: [` + strings.Repeat(`"h:1",`, 65) + `]`, "cluster.join: 65 addresses; want at most 64"},
		{`interval: 5`, `cluster.interval: "5" is not a time; write for example 100ms`},
		{`interval: 19ms`, "cluster.interval: 19ms is out of range; want 20ms to 10s"},
		{`interval: 11s`, "cluster.interval: 11s is out of range"},
		{`node: "a/b"`, `cluster.node: "a/b" is not a name; want a name of 1 to 64 letters, digits, dots, dashes or underscores, or host:port`},
		{`advertise: "edge-1:7946"`, `cluster.advertise: "edge-1:7946" is not an address that others can reach; want the IP address and port`},
		{`advertise: "0.0.0.0:7946"`, "cluster.advertise: "},
		{`max_bytes: 1KiB`, "cluster.max_bytes: 1KiB is out of range; want 4KiB to 1MiB"},
		{`max_bytes: many`, `cluster.max_bytes: "many" is not a size; write for example 16KiB`},
		{`max_nodes: 1`, "cluster.max_nodes: 1 is out of range; want 2 to 1000"},
		{`top_talkers: 3`, "cluster.top_talkers: 3 is out of range; want 4 to 1048576"},
		{`ignore: [""]`, "cluster.ignore[0]: is empty; want a name"},
		{`secrets: x`, "cluster.secrets: unknown setting; did you mean secret? valid here: name, bind, join, secret, secret_file, interval, node"},
	} {
		_, err := Parse("f.yaml", []byte(withCluster(tt.text)), noEnv)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s:\ngot  %v\nwant %s", tt.text, err, tt.want)
		}
		if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "0123456789abcdef")) {
			t.Errorf("%s: the error shows the secret: %v", tt.text, err)
		}
	}
}

func TestClusterSecretFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	settings := `name: edge, bind: "10.0.0.1:7946", secret_file: `
	c, err := Load(write("good.yaml", withCluster(settings+write("secret", "a secret of nodes\n"))), noEnv)
	if err != nil || c.Cluster.Secret != "a secret of nodes" {
		t.Errorf("got %+v, %v", c, err)
	}
	for file, want := range map[string]string{
		write("short", "short of letter\n"): "cluster.secret_file: 15 characters are too few",
		filepath.Join(dir, "none"):          "no such file",
		dir:                                 "is a directory",
	} {
		_, err := Load(write("bad.yaml", withCluster(settings+file)), noEnv)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "letter") {
			t.Errorf("%s: got %v, want %s", file, err, want)
		}
	}
}

func TestClusterAndFlags(t *testing.T) {
	t.Parallel()
	for _, f := range []Flags{{Listen: "10.0.0.1:7946"}, {Admin: ":7946"}} {
		c := mustParse(t, withCluster(leanCluster))
		if err := c.Override(f, true); err == nil || !strings.Contains(err.Error(), "cluster.bind 10.0.0.1:7946: ") {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

// With Redis the nodes keep one limit, without it each its own, and both is
// said.
func TestClusterBounds(t *testing.T) {
	t.Parallel()
	const rule = "rules: [{name: a, rate: 10/s, burst: 20}]"
	alone := mustParse(t, "cluster: {"+leanCluster+", max_nodes: 3}\n"+rule)
	shared := mustParse(t, "redis: {url: \"redis://h\"}\ncluster: {"+leanCluster+", max_nodes: 3}\n"+rule)
	if w := Warnings(alone, plan(t, alone)); len(w) != 1 || !strings.HasPrefix(w[0], "cluster: without redis or postgres each node enforces the limits separately") ||
		!strings.Contains(w[0], "3 nodes admit up to 3 times") {
		t.Errorf("%q", w)
	}
	if w := Warnings(shared, plan(t, shared)); len(w) > 0 {
		t.Errorf("%q", w)
	}
	// 1000 nodes · 0.1 s / 2 % is more than an hour; 3 are not.
	many := mustParse(t, "redis: {url: \"redis://h\"}\ncluster: {"+leanCluster+", max_nodes: 1000}\n"+rule)
	if w := Warnings(many, plan(t, many)); len(w) != 1 || !strings.HasPrefix(w[0], "rule a: each of 1000 nodes admits a client's first request unchecked") {
		t.Errorf("%q", w)
	}
	for c, want := range map[*Config][]string{
		alone:  {"cluster edge", "up to 3 nodes", "the most that 3 nodes together admit from a client", "each deciding alone", "93 at once, then 30/s"},
		shared: {"cluster edge", "up to 3 nodes", "if counts arrive within 200ms", "60 at once, then 10.2/s"},
	} {
		text := Describe(c, plan(t, c))
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("no %q in\n%s", w, text)
			}
		}
	}
}

// TestLoadCluster reads that section of a file, whatever the others say.
func TestLoadCluster(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		withCluster(leanCluster):                   "edge",
		"cluster: {" + leanCluster + "}":           "edge",
		"rules: 7\ncluster: {" + leanCluster + "}": "edge",
		"rules: [{name: a, rate: 10/s}]":           ":1:1: cluster: missing; write for example cluster: {name: edge",
		"":                                         ":1:1: cluster: missing; write for example cluster: {name: edge",
		"- a":                                      ":1:1: found a list; want settings: write for example cluster",
		"cluster: {name: edge, bind: \"a:1\", secret: hunter2}": "cluster.secret: 7 characters are too few",
		"cluster: {" + leanCluster + ", nam: x}":                "cluster.nam",
		"cluster: {":                                            ":1:",
	} {
		path := filepath.Join(t.TempDir(), "f.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := LoadCluster(path, nil)
		if err == nil && c.Name != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if _, err := LoadCluster("/none", nil); err == nil || !strings.HasPrefix(err.Error(), "/none: no such file") {
		t.Errorf("no file: %v", err)
	}
}
