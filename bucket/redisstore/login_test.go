package redisstore

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/fastlimit/fastlimit/bucket/storetest/trial"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// A store, and its registries, go on with a new password and new certificates, once they are told.
func TestRenew(t *testing.T) {
	t.Parallel()
	for name, tls := range map[string]bool{"password": false, "certificates": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, l := redistest.StartTLS(t, time.Now().Add(time.Hour), "--tls-auth-clients", "no"), new(testkit.Log)
			server.Do("ACL", "SETUSER", "node", "on", ">first", "~*", "+@all")
			c := brisk(server.Addr, l)
			c.Username, c.Password = "node", "first"
			if tls {
				c.URL, c.CAFile = "rediss://"+server.TLSAddr, server.CertFile
			}
			s := openBrisk(t, c)
			registry := s.Registry("live")
			t.Cleanup(func() { _ = registry.Close() })
			trial.Renewal{
				Store: s, Registry: registry, Stats: func() remote.Stats { return s.Stats().Stats },
				Change: func() {
					if tls { // by an authority that nobody knows yet
						next := redistest.NewCertificate(t, time.Now().Add(time.Hour))
						server.Do("CONFIG", "SET", "tls-cert-file", next.CertFile, "tls-key-file", next.KeyFile)
						c.CAFile = next.CertFile
					} else {
						server.Do("ACL", "SETUSER", "node", "resetpass", ">second")
						c.Password = "second"
					}
					server.Do("CLIENT", "KILL", "USER", "node")
				},
				Renew: func() error { // and measure, on a new connection
					return errors.Join(s.Renew(c), s.driver.Measure(t.Context(), make([]time.Duration, 1)))
				},
			}.Run(t)
		})
	}
}

// What is not of the login does not change, and a file that cannot be used changes nothing.
func TestRenewRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/empty", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := newDriver(Config{URL: "redis://u:p@127.0.0.1:1/2", Timeout: time.Second, TLS: true}, production)
	if err != nil {
		t.Fatal(err)
	}
	s := &Store{driver: d}
	was := d.login.Load()
	for name, c := range map[string]Config{
		"address":  {URL: "redis://u:p@127.0.0.1:2/2", Timeout: time.Second, TLS: true},
		"database": {URL: "redis://u:p@127.0.0.1:1", Timeout: time.Second, TLS: true},
		"timeout":  {URL: "redis://u:p@127.0.0.1:1/2", TLS: true},
		"no TLS":   {URL: "redis://u:p@127.0.0.1:1/2", Timeout: time.Second},
		"file":     {URL: "redis://u:p@127.0.0.1:1/2", Timeout: time.Second, CAFile: dir + "/empty"},
		"no file":  {URL: "redis://u:p@127.0.0.1:1/2", Timeout: time.Second, CAFile: dir + "/none"},
	} {
		if err := s.Renew(c); err == nil || d.login.Load() != was {
			t.Errorf("%s: %v", name, err)
		} else if strings.Contains(name, "file") != strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Renew(Config{URL: "redis://v:q@127.0.0.1:1/2", Username: "w", Timeout: time.Second, TLS: true}); err != nil {
		t.Error(err)
	}
	if l := d.login.Load(); l.username != "w" || l.password != "q" || l.tls == nil {
		t.Errorf("%+v", l)
	}
}
