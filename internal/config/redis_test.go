package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket/redisstore"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

func withRedis(settings string) string {
	return "redis: {" + settings + "}\nrules: [{name: a, rate: 10/s}]\n"
}

func TestRedis(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]redisstore.Config{
		`url: "redis://u:p@h:6379/1", timeout: 20ms`:           {URL: "redis://u:p@h:6379/1", Timeout: 20 * time.Millisecond},
		`url: "rediss://h", ca_file: ca.pem, key_prefix: "x:"`: {URL: "rediss://h", CAFile: "ca.pem", KeyPrefix: "x:"},
		`url: "unix:///run/redis.sock", cluster: false`:        {URL: "unix:///run/redis.sock"},
		`addresses: ["h:1", "i:2"], master_name: edge`:         {Addrs: []string{"h:1", "i:2"}, MasterName: "edge"},
		`addresses: ["h:1"], cluster: true, cert_file: c, key_file: k, username: u, password: p`: {
			Addrs: []string{"h:1"}, Cluster: true, CertFile: "c", KeyFile: "k", Username: "u", Password: "p",
		},
	} {
		c := mustParse(t, withRedis(text))
		if !reflect.DeepEqual(*c.Redis, want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", text, *c.Redis, want)
		}
		if l := c.Limiter(); !l.Shared || l.StoreTimeout != want.Timeout {
			t.Errorf("%s: planned for a store: %v, timeout %v", text, l.Shared, l.StoreTimeout)
		}
	}
	if c := mustParse(t, "rules: [{name: a, rate: 10/s}]"); c.Redis != nil || c.Limiter().Shared {
		t.Error("a Redis that nobody named")
	}
}

func TestRedisErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{``, "f.yaml:1:8: redis: 0 of url, url_file and addresses are set; set one"},
		{`url: "redis://h", addresses: []`, "f.yaml:1:8: redis: 2 of url, url_file and addresses are set; set one"},
		{`url: "http://h"`, `redis.url: scheme "http" is not one of redis, rediss and unix; write redis://`},
		{`url: "redis://:s3cret@"`, "redis.url: names no host; write redis://"},
		{`url: "redis://h:s3cret@ x"`, "redis.url: is not a URL; percent-encode the special characters of a password; write redis://"},
		{`url: "unix:"`, "redis.url: names no socket; write redis://"},
		{`url: "redis://h", timeout: 5`, `redis.timeout: "5" is not a time; write for example 5ms`},
		{`url: "redis://h", timeout: 1us`, "redis.timeout: 1us is out of range; want 1ms to 1s"},
		{`url: "redis://h", timout: 5ms`, "redis.timout: unknown setting; did you mean timeout?"},
		{`url: "redis://h", master_name: x`, "redis.master_name: needs addresses, of the sentinels"},
		{`addresses: ["h:1"], master_name: x, cluster: true`, "redis.cluster: true together with master_name; Sentinel and Cluster"},
		{`addresses: ["h"]`, `redis.addresses[0]: "h" is not host:port`},
		{`url_file: /does/not/exist`, `redis.url_file: "/does/not/exist" is not read here`},
		{"url: redis://h}\nrules: [{name: a, rate: 1/d, burst: 200000}]\nx: {", "rules[0].burst: burst 200000 at 1/d takes"},
	} {
		_, err := Parse("f.yaml", []byte(withRedis(tt.text)), noEnv)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s:\ngot  %v\nwant %s", tt.text, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error shows the password: %v", tt.text, err)
		}
	}
}

func TestRedisSecretFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	url, password := write("url", "redis://:p@h\n"), write("password", "s3cret\r\n")
	c, err := Load(write("good.yaml", withRedis("url_file: "+url+", password_file: "+password)), noEnv)
	if err != nil || c.Redis.URL != "redis://:p@h" || c.Redis.Password != "s3cret" {
		t.Errorf("got %+v, %v", c, err)
	}
	_, err = Load(write("bad.yaml", withRedis("url_file: "+filepath.Join(dir, "none")+", password_file: "+dir)), noEnv)
	for _, want := range []string{"bad.yaml:1:19: redis.url_file:", "no such file", "redis.password_file:", "is a directory"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
}

func TestOnFailure(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]fastlimit.OnFailure{"local": fastlimit.FailLocal, "open": fastlimit.FailOpen, "closed": fastlimit.FailClosed} {
		c := mustParse(t, "rules: [{name: a, rate: 10/s, on_failure: "+text+"}]")
		if got := c.Policy.Rules[0].Limit.OnFailure; got != want {
			t.Errorf("%s: got %v", text, got)
		}
		warned := len(Warnings(c, plan(t, c))) > 0
		if warned != (want != fastlimit.FailLocal) {
			t.Errorf("%s without redis: warned %v", text, warned)
		}
	}
}

func TestRedisFlag(t *testing.T) {
	t.Parallel()
	c := mustParse(t, withRedis(`addresses: ["h:1"], timeout: 7ms`))
	if err := c.Override(Flags{Redis: "redis://other"}, true); err != nil {
		t.Fatal(err)
	}
	if want := (redisstore.Config{URL: "redis://other", Timeout: 7 * time.Millisecond}); !reflect.DeepEqual(*c.Redis, want) {
		t.Errorf("got %+v", *c.Redis)
	}
	c = mustParse(t, "rules: [{name: a, rate: 1/d, burst: 200000}]")
	if err := c.Override(Flags{Redis: "redis://h"}, true); err == nil || !strings.Contains(err.Error(), "--redis: ") {
		t.Errorf("a limit that Redis cannot keep: %v", err)
	}
}

// The files that serving would read are read, and what is wrong with them has
// its place.
func TestCertificates(t *testing.T) {
	t.Parallel()
	a, b := redistest.NewCertificate(t, time.Now().Add(time.Hour)), redistest.NewCertificate(t, time.Now().Add(time.Hour))
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for settings, want := range map[string]string{
		"ca_file: " + a.CertFile + ", cert_file: " + a.CertFile + ", key_file: " + a.KeyFile: "",
		"ca_file: " + empty:                                     "1:37: redis.ca_file: \"" + empty + "\" contains no certificate; name a file in PEM format",
		"ca_file: " + a.KeyFile:                                 "contains no certificate",
		"ca_file: /does/not/exist":                              `redis.ca_file: "/does/not/exist" no such file; name a file that can be read`,
		"cert_file: " + a.CertFile + ", key_file: " + b.KeyFile: "redis.cert_file: cannot be used with key_file: private key does not match public key",
		"cert_file: " + a.CertFile:                              "redis.cert_file: is set without key_file",
		"key_file: " + a.KeyFile:                                "redis.key_file: is set without cert_file",
	} {
		_, err := parse("f.yaml", []byte(withRedis(`url: "rediss://h", `+settings)), noEnv, thisMachine())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s:\ngot  %v\nwant %s", settings, err, want)
		}
	}
}

func TestRedisSettings(t *testing.T) {
	t.Parallel()
	c := mustParse(t, withRedis(`addresses: ["h:1"], master_name: m, database: 3, username: u, password: p, sentinel_username: su, sentinel_password: sp,
  tls: true, server_name: n, workers: 4, queue: 100, retry_min: 50ms, retry_max: 3s, timeout: 9ms, key_prefix: k`))
	r := c.Redis
	if r.DB != 3 || r.SentinelUsername != "su" || r.SentinelPassword != "sp" || !r.TLS || r.ServerName != "n" ||
		r.Workers != 4 || r.Queue != 100 || r.RetryMin != 50*time.Millisecond || r.RetryMax != 3*time.Second {
		t.Errorf("%+v", r)
	}
	for _, tt := range []struct{ settings, want string }{
		{`url: "redis://h/x"`, `1:14: redis.url: database "x" is not a number from 0; write redis://`},
		{`url: "redis://h/-1"`, `database "-1" is not a number from 0`},
		{`url: "redis://h/99999999999"`, `database "99999999999" is not a number from 0`},
		{`url: "redis://h/1/2"`, `database "1/2" is not a number from 0`},
		{`url: "redis://h?db=x"`, `database "x" is not a number from 0`},
		{`url: "unix:///s?db=x"`, `database "x" is not a number from 0`},
		{`url: "redis://h?max_retries=3"`, "has a query parameter other than one db; write the settings next to url"},
		{`url: "redis://h:0"`, `port "0" is not a number from 1 to 65535`},
		{`url: "redis://h:70000"`, `port "70000" is not a number from 1 to 65535`},
		{`url: "redis://:s3#cret@h"`, "percent-encode the special characters of a password"},
		{`url: "redis://h/2", cluster: true`, "redis.cluster: a cluster has only database 0, and the URL names another"},
		{`url: "redis://h", database: 2`, "redis.database: is used with addresses only; write it into the URL: redis://host:6379/2"},
		{`addresses: ["h:1"], database: -2`, `redis.database: "-2" is not a whole number; write for example 0`},
		{`addresses: ["h:1"], database: 2, cluster: true`, "redis.database: a cluster has only database 0"},
		{`addresses: ["h:1"], sentinel_password: x`, "redis.sentinel_password: needs master_name: it is for sentinels"},
		{`addresses: ["h:1"], master_name: m, sentinel_username: x`, "redis.sentinel_username: is set without a password"},
		{`url: "redis://h", password: x, password_file: y`, "redis.password_file: password is set too; remove one of the two"},
		{`url: "rediss://h", tls: false`, "redis.tls: false, but a rediss:// URL turns it on"},
		{`url: "redis://h", tls: false, ca_file: x`, "redis.tls: false, but ca_file or cert_file turns it on"},
		{`url: "redis://h", tls: yes`, "redis.tls: \"yes\" is neither true nor false"},
		{`url: "redis://h", server_name: x`, "redis.server_name: has no meaning without TLS"},
		{`url: "redis://h", workers: 65`, "redis.workers: 65 is out of range; want 1 to 64"},
		{`url: "redis://h", queue: 0`, "redis.queue: 0 is too small"},
		{`url: "redis://h", retry_min: 2m`, "redis.retry_min: 2m is out of range; want 1ms to 1m"},
		{`url: "redis://h", retry_min: 3s`, "redis.retry_min: 3s is above retry_max, which is 2s; lower it, or raise retry_max"},
		{`url: "redis://h", retry_max: 50ms`, "redis.retry_max: 50ms is below retry_min, which is 100ms"},
	} {
		_, err := Parse("f.yaml", []byte(withRedis(tt.settings)), noEnv)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3") {
			t.Errorf("%s:\ngot  %v\nwant %s", tt.settings, err, tt.want)
		}
	}
}

// A store's login may change while a node runs, and nothing else of it.
func TestLoginIsNotFrozen(t *testing.T) {
	t.Parallel()
	const rules = "\nrules: [{name: a, rate: 1/s}]\n"
	for _, tt := range []struct {
		was, is string
		frozen  bool
	}{
		{"redis: {url: redis://a:b@127.0.0.1:1/2}", "redis: {url: redis://c:d@127.0.0.1:1/2}", false},
		{"redis: {url: redis://127.0.0.1:1, password: x}", "redis: {url: redis://127.0.0.1:1, username: y, password: z}", false},
		{"redis: {url: redis://127.0.0.1:1}", "redis: {url: redis://127.0.0.1:1, timeout: 5ms}", false},
		{"redis: {url: redis://127.0.0.1:1}", "redis: {url: redis://127.0.0.1:2}", true},
		{"redis: {url: redis://127.0.0.1:1}", "redis: {url: rediss://127.0.0.1:1}", true},
		{"redis: {url: redis://127.0.0.1:1}", "", true},
		{"redis: {addresses: [127.0.0.1:1], master_name: m, sentinel_password: a}", "redis: {addresses: [127.0.0.1:1], master_name: m, sentinel_password: b}", true},
		{"postgres: {url: postgres://a:b@127.0.0.1/d}", "postgres: {url: postgres://c:d@127.0.0.1/d}", false},
		{"postgres: {url: postgres://a:b@127.0.0.1/d}", "postgres: {url: postgres://a:b@127.0.0.1/e}", true},
		{"", "postgres: {url: postgres://a:b@127.0.0.1/d}", true},
	} {
		if fields := mustParse(t, tt.is+rules).Frozen(mustParse(t, tt.was+rules)); (len(fields) > 0) != tt.frozen {
			t.Errorf("%s → %s: %q", tt.was, tt.is, fields)
		}
	}
}
