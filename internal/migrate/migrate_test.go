package migrate_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/config"
	"github.com/fastlimit/fastlimit/internal/migrate"
	"github.com/fastlimit/fastlimit/internal/migrate/nginxconf"
)

var update = flag.Bool("update", false, "write the .yaml files anew")

// translate is the file that a configuration comes to, and whether it has rules.
func translate(t *testing.T, name, text string, files nginxconf.Files) (string, bool) {
	t.Helper()
	r, err := migrate.Nginx(name, text, files)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.WriteYAML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String(), len(r.Rules) > 0
}

// accepted tells what validate says of a file.
func accepted(text string) error {
	c, err := config.Parse("f.yaml", []byte(text), nil)
	if err != nil {
		return err
	}
	_, err = fastlimit.NewPlan(c.Limiter())
	return err
}

// Each configuration in testdata comes to the file beside it, which loads, and every
// line that has limit_req or limit_conn is named in it.
func TestNginx(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/*.conf")
	if err != nil || len(names) < 2 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := translate(t, name, string(data), nginxconf.Disk("testdata"))
		if err := accepted(got); err != nil {
			t.Errorf("%v\n%s", err, got)
		}
		golden := strings.TrimSuffix(name, ".conf") + ".yaml"
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(golden); err != nil || got != string(want) {
			t.Errorf("%s, %v:\n%s\nwant\n%s", name, err, got, want)
		}
	}
}

// What each directive becomes.
func TestDirectives(t *testing.T) {
	t.Parallel()
	const zones = "limit_req_zone $binary_remote_addr zone=a:1m rate=10r/s; limit_req_zone $host zone=b:1m rate=30r/m; limit_conn_zone $remote_addr zone=c:1m;\n"
	for text, want := range map[string]string{
		"limit_req zone=a;":                                                    "key: ip\n    rate: 10/s\n    burst: 1\n",
		"limit_req zone=b burst=9 nodelay;":                                    "key: host\n    rate: 30/m\n    burst: 10\n",
		"limit_req zone=a; limit_req_dry_run on;":                              "burst: 1\n    mode: shadow\n",
		"limit_req zone=a; limit_req_status 444;":                              "deny_status: 444\nrules:",
		"limit_req zone=a; limit_conn c 7;":                                    "connections: {max_per_client: 7} # n:2\n",
		"server { location /x { limit_req zone=a; } }":                         `match: {path: "/x*"}`,
		"server { location /x/ { limit_req zone=a; } }":                        `match: {path: "/x/*"}`,
		"server { location = /x { limit_req zone=a; } }":                       `match: {path: "/x"}`,
		"server { location =/x { limit_req zone=a; } }":                        `match: {path: "/x"}`,
		"server { location ^~ /x { limit_req zone=a; } }":                      `match: {path: "/x*"}`,
		`server { location ~ \.php$ { limit_req zone=a; } }`:                   `match: {path: "*.php"}`,
		`server { location ~ ^/(a|b)/ { limit_req zone=a; } }`:                 `match: {path: ["/a/*", "/b/*"]}`,
		`server { location ~ ^/a/?$ { limit_req zone=a; } }`:                   `match: {path: ["/a", "/a/"]}`,
		`server { location ~ "^/x.*y" { limit_req zone=a; } }`:                 `match: {path: "/x*y*"}`,
		`server { location "/a${b}" { limit_req zone=a; } }`:                   `match: {path: "/a$${b}*"}`,
		`server { location ~* /123 { limit_req zone=a; } }`:                    `match: {path: "*/123*"}`,
		"server { server_name x; location / { limit_req zone=a; } }":           "- name: \"a\"\n    key: ip\n    rate", // one server has all hosts
		"server { server_name X .y; limit_req zone=a; } server { }":            `match: {host: ["x", "y", "*.y"]}`,
		"server { server_name x; location /p { limit_req zone=a; } } server{}": `match: {host: "x", path: "/p*"}`,
		// One zone counts a client's requests together, and so does one rule.
		"server { location /x { limit_req zone=a; } location /y { limit_req zone=a; } }":                 `match: {path: ["/x*", "/y*"]}`,
		"server { server_name x; limit_req zone=a; } server { server_name y; limit_req zone=a; }":        `match: {host: ["x", "y"]}`,
		"server { limit_req zone=a; location /x { limit_req zone=a; limit_req zone=b; } }":               "limit_req zone=a\n  - name: \"a\"\n    key: ip\n    rate",
		"server { location /x { limit_req zone=a; } location /y { limit_req zone=a burst=2 nodelay; } }": "nginx counts these requests of a client and those of n:2 together",
		"limit_req zone=a; server { location /x { limit_req zone=b; } }":                                 "location /x: the rule of n:2 applies to these requests too; nginx has other limits for them, or none",
		"server { location / { limit_req zone=a; } location /x { } }":                                    "location /x: the rule of n:2 applies to these requests too",
		"limit_req zone=a burst=5;":                           "burst: 1\n    max_wait: 500ms\n",
		"limit_req_dry_run on; limit_req zone=a burst=5;":     "burst: 1\n    # max_wait: 500ms # once the rule is enforced\n    mode: shadow\n",
		"limit_req_dry_run on; limit_req zone=a burst=20000;": "burst: 1\n    # max_wait:",
		"limit_req zone=a burst=5 delay=2;":                   "burst: 3\n    max_wait: 300ms\n",
		"limit_req zone=a burst=5 delay=9;":                   "burst: 6\n",
		"limit_req zone=a burst=5 nodelay;":                   "burst: 6\n",
		"limit_req zone=a burst=11;":                          "wait: {per_key: 11, total: 10000}\nrules:",
		"limit_req zone=a burst=20000;":                       "wait: {per_key: 20000, total: 20000}\nrules:",
		"limit_req zone=a burst=40000;":                       "are admitted at once, as the longest wait is 1h0m0s",
		"server { location /x { limit_req zone=a burst=4; } location /y { limit_req zone=a burst=5; } }": "max_wait: 400ms",
		"limit_req zone=a; limit_req zone=none;":                                                         "#   n:2: limit_req zone=none: there is no limit_req_zone of that name",
		`limit_req zone=a; server { location ~ "a[0-9]{9}" { limit_req zone=b; } }`:                      "is a regular expression that no pattern can express",
		`limit_req zone=a; server { location ~* \.php$ { limit_req zone=b; } }`:                          "ignores case, and patterns do not",
		"limit_req zone=a; limit_req_zone $geoip zone=g:1m rate=1r/s; limit_req zone=g;":                 "zone g at n:2: $geoip cannot be a part of a key here",
		"limit_req zone=a; map $x $k { a b; } limit_req_zone $k zone=g:1m rate=1r/s; limit_req zone=g;":  "$k is set by map at n:2: if it exempts clients, list them under allow",
		"limit_req zone=a; server { limit_conn c 7; location /x { limit_conn c 3; } }":                   "n:2: limit_conn c 3: connections are limited for all hosts and paths together",
		"limit_req zone=a; include more.conf;":                                                           "n:2: include more.conf: files are not read here; limits in it are not translated",
		"limit_req zone=a; server { location \"/\xff\" { limit_req zone=b; } }":                          `limit_req zone=b`,
	} {
		got, _ := translate(t, "n", "http { "+zones+text+"}", nginxconf.Files{})
		if err := accepted(got); err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %v\n%s\nwant %s", text, err, got, want)
		}
	}
}

// FuzzNginx: whatever is translated loads, and no limit_req is lost without a word.
func FuzzNginx(f *testing.F) {
	for _, name := range []string{"testdata/usual.conf", "testdata/everything.conf", "testdata/conf.d/site.conf"} {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Add("limit_req_zone $cookie_é zone=é:1m rate=4294967295r/s; server { server_name ${x}; location /${y} { limit_req zone=é burst=2147482; } } server {}")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := migrate.Nginx("n", text, nginxconf.Files{})
		if err != nil || len(r.Rules) == 0 {
			return
		}
		var b bytes.Buffer
		if err := r.WriteYAML(&b); err != nil {
			t.Fatal(err)
		}
		if err := accepted(b.String()); err != nil && b.Len() < 1<<20 { // the file's own bound
			t.Fatalf("%v\n%q\n%s", err, text, b.String())
		}
	})
}
