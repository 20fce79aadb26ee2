package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket/pgstore"
)

func withPostgres(settings string) string {
	return "postgres: {" + settings + "}\nrules: [{name: a, rate: 10/s}]\n"
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]pgstore.Config{
		`url: "postgres://u:p@h:5432/d"`: {URL: "postgres://u:p@h:5432/d", Timeout: 20 * time.Millisecond},
		`url: "postgresql://u@h,i:5433/d?target_session_attrs=read-write", timeout: 50ms, schema: limits, workers: 4, queue: 9, retry_min: 1s, retry_max: 3s, prune: 5m`: {
			URL: "postgresql://u@h,i:5433/d?target_session_attrs=read-write", Timeout: 50 * time.Millisecond, Schema: "limits",
			Workers: 4, Queue: 9, RetryMin: time.Second, RetryMax: 3 * time.Second, Prune: 5 * time.Minute,
		},
	} {
		c := mustParse(t, withPostgres(text))
		if !reflect.DeepEqual(*c.Postgres, want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", text, *c.Postgres, want)
		}
		if l := c.Limiter(); !l.Shared || l.StoreTimeout != want.Timeout || c.Store().Name != "postgres" {
			t.Errorf("%s: planned for a store: %v, timeout %v", text, l.Shared, l.StoreTimeout)
		}
	}
}

func TestPostgresErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{``, "f.yaml:1:11: postgres: 0 of url and url_file are set; set one: write for example postgres:"},
		{`url: "mysql://h/d"`, `f.yaml:1:17: postgres.url: scheme "mysql" is not postgres; write postgres://`},
		{`url: "postgres:///s3cret"`, "postgres.url: names no host; write postgres://"},
		{`url: "postgres://u:s3cret@h"`, "postgres.url: names no database; write postgres://"},
		{`url: "postgres://u:s3cret@h/d?pool_max_conns=5"`, `postgres.url: has the parameter "pool_max_conns"; write the settings next to url`},
		{`url: "postgres://u:s3#cret@h/d"`, "percent-encode the special characters of a password"},
		{`url: "postgres://u:s3cret@h/d?sslmode=maybe"`, "postgres.url: cannot be used (not shown, it may hold a password)"},
		{`url: "postgres://h/d", schema: "a b"`, `postgres.schema: "a b" is not a name of lower-case letters`},
		{`url: "postgres://h/d", schema: pg_x`, `postgres.schema: "pg_x" is not a name`},
		{`url: "postgres://h/d", timeout: 2s`, "postgres.timeout: 2s is out of range; want 1ms to 1s"},
		{`url: "postgres://h/d", retry_max: 50ms`, "postgres.retry_max: 50ms is below retry_min, which is 100ms"},
		{`url: "postgres://h/d", key_prefix: x`, "postgres.key_prefix: unknown setting; valid here: url, url_file, schema, timeout"},
		{"url: postgres://h/d}\nredis: {url: redis://h", "f.yaml:1:11: postgres: redis is set too; remove one of the two: nodes share one store"},
		{"url: postgres://h/d}\nrules: [{name: a, rate: 1/d, burst: 200000}]\nx: {", "rules[0].burst: burst 200000 at 1/d takes"},
	} {
		_, err := Parse("f.yaml", []byte(withPostgres(tt.text)), noEnv)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s:\ngot  %v\nwant %s", tt.text, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error shows the password: %v", tt.text, err)
		}
	}
	_, err := Parse("f.yaml", []byte("postgres:\nurl: x\nrules: [{name: a, rate: 1/s}]\n"), noEnv)
	if err == nil || !strings.Contains(err.Error(), "f.yaml:2:1: url: unknown setting here; it belongs in postgres, indented more than postgres") {
		t.Errorf("not indented: %v", err)
	}
}

func TestPostgresURLFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(path, []byte("postgres://u:p@h/d\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "f.yaml")
	if err := os.WriteFile(file, []byte(withPostgres("url_file: "+path)), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(file, noEnv)
	if err != nil || c.Postgres.URL != "postgres://u:p@h/d" {
		t.Errorf("%+v, %v", c, err)
	}
	if err := c.Override(Flags{Redis: "redis://h"}, true); err == nil || !strings.Contains(err.Error(), "--redis: the file has postgres") {
		t.Errorf("--redis beside postgres: %v", err)
	}
}
