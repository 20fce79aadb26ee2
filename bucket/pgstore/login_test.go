package pgstore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/fastlimit/fastlimit/bucket/storetest/trial"
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
	trial.Renewal{
		Store: s, Registry: registry, Stats: func() remote.Stats { return s.Stats().Stats },
		Change: func() {
			at.server.Do("ALTER ROLE node PASSWORD 'second'")
			at.server.Do("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'node'")
		},
		Renew: func() error {
			redistest.Eventually(t, "the class of that", func() bool { return s.Stats().Errors["auth"] > 0 })
			c.URL = strings.Replace(c.URL, "first", "second", 1)
			return errors.Join(s.Renew(c), s.driver.Measure(t.Context(), make([]time.Duration, 1))) // on a new connection
		},
	}.Run(t)
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
