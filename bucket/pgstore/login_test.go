package pgstore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// A store, and its registries, go on with a new password, once they are told.
func TestRenew(t *testing.T) {
	t.Parallel()
	at := newSite(t)
	hba := filepath.Join(at.server.Dir, "pg_hba.conf")
	rest, err := os.ReadFile(hba)
	if err == nil {
		err = os.WriteFile(hba, append([]byte("host all node 127.0.0.1/32 scram-sha-256\n"), rest...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	at.server.Do("SELECT pg_reload_conf()")
	at.server.Do("ALTER ROLE node PASSWORD 'first'")
	c := brisk(strings.Replace(at.server.URL("node", "postgres"), "node@", "node:first@", 1), new(logs))
	s := openBrisk(t, c)
	registry, err := s.Registry("live")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = registry.Close() })
	load := startLoad(t, s)
	read := false
	load.progress("works at first")
	if err := registry.Put(t.Context(), "a", "b", time.Hour); err != nil {
		t.Fatal(err)
	}
	at.server.Do("ALTER ROLE node PASSWORD 'second'")
	at.server.Do("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'node'")
	redistest.Eventually(t, "that shows", func() bool { return s.Stats().Errors["auth"] > 0 && s.Stats().Trips > 0 })
	c.URL = strings.Replace(c.URL, "first", "second", 1)
	if err := s.Renew(c); err != nil {
		t.Fatal(err)
	}
	if err := s.driver.Measure(t.Context(), make([]time.Duration, 1)); err != nil { // on a new connection
		t.Fatal(err)
	}
	redistest.Eventually(t, "the breaker closes", func() bool { return s.Stats().State == "closed" })
	load.progress("works again")
	load.end()
	for range 3 { // whose connections have been ended
		k, err := registry.Read(t.Context())
		if read = err == nil && len(k.Records) == 1; read {
			break
		}
	}
	if !read {
		t.Error("the registry does not work again")
	}
}

// What is not of the login does not change, and what cannot be used changes nothing.
func TestRenewRefuses(t *testing.T) {
	t.Parallel()
	const url = "postgres://u:p@127.0.0.1:1,127.0.0.2:2/d?sslmode=disable"
	d, err := newDriver(Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	s := &Store{driver: d}
	for name, c := range map[string]Config{
		"address":  {URL: strings.Replace(url, "127.0.0.2", "127.0.0.3", 1)},
		"database": {URL: strings.Replace(url, "/d", "/e", 1)},
		"mode":     {URL: strings.Replace(url, "disable", "prefer", 1)},
		"schema":   {URL: url, Schema: "other"},
		"no file":  {URL: url + "&sslrootcert=/none/such"},
	} {
		if err := s.Renew(c); err == nil || d.login.Load() != nil || strings.Contains(err.Error(), "u:p") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Renew(Config{URL: strings.Replace(url, "u:p", "v:q%40", 1) + "&user=w"}); err != nil {
		t.Error(err)
	}
	if l := d.login.Load(); l == nil || l.User != "w" || l.Password != "q@" {
		t.Errorf("%+v", l)
	}
}
