package redisstore

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/storetest/trial"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// What is wrong between this node and Redis is named with the setting to
// change, and is an error at the start: it does not pass by itself.
func TestWrongConnectionIsNamed(t *testing.T) {
	t.Parallel()
	ours := redistest.StartTLS(t, time.Now().Add(time.Hour))
	other := redistest.StartTLS(t, time.Now().Add(time.Hour))
	sentinel := redistest.StartSentinel(t, ours.Addr)
	locked := redistest.StartSentinel(t, ours.Addr, "requirepass s3cret")
	_, tlsPort, _ := net.SplitHostPort(ours.TLSAddr)
	watch := func(s *redistest.Server) Config {
		return Config{Addrs: []string{s.Addr}, MasterName: redistest.MasterName}
	}
	guess := watch(locked)
	guess.SentinelPassword = "wr0ng"
	stranger := watch(sentinel)
	stranger.MasterName = "mymaster"
	for name, tt := range map[string]struct {
		config Config
		want   []string
	}{
		"plain to TLS":            {Config{URL: "redis://" + ours.TLSAddr}, []string{"protocol: ", ours.TLSAddr + " speaks TLS", "write rediss:// in place of redis://"}},
		"plain address to TLS":    {Config{Addrs: []string{ours.TLSAddr}}, []string{"turn TLS on (tls)"}},
		"plain sentinel to TLS":   {Config{Addrs: []string{ours.TLSAddr}, MasterName: "m"}, []string{ours.TLSAddr + " speaks TLS"}},
		"TLS to plain":            {Config{URL: "rediss://" + ours.Addr}, []string{ours.Addr + " does not speak TLS", "write redis:// in place of rediss://"}},
		"TLS to a plain sentinel": {Config{Addrs: []string{sentinel.Addr}, MasterName: "m", TLS: true}, []string{"does not speak TLS"}},
		"wrong CA":                {Config{URL: "rediss://" + ours.TLSAddr, CAFile: other.CertFile}, []string{"protocol: ", "unknown authority", "set ca_file"}},
		"another name":            {Config{URL: "rediss://localhost:" + tlsPort, CAFile: ours.CertFile}, []string{"protocol: ", "localhost", "set server_name"}},
		"no certificate of ours":  {Config{URL: "rediss://" + ours.TLSAddr, CAFile: ours.CertFile}, []string{"set cert_file and key_file"}},
		"unknown master":          {stranger, []string{`know no master "mymaster"`, `correct master_name: they watch "` + redistest.MasterName + `"`}},
		"not a sentinel":          {watch(ours.Server), []string{ours.Addr + " is not a sentinel", "port 26379"}},
		"sentinel's password":     {watch(locked), []string{"auth: ", "check sentinel_username and sentinel_password"}},
		"wrong sentinel password": {guess, []string{"auth: ", "check sentinel_username and sentinel_password"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := tt.config
			c.Timeout, c.Logger = timeoutFor(name), patient("").Logger
			s, err := Open(t.Context(), c)
			if s != nil {
				trial.CloseLater(t, s)
			}
			if err == nil || s != nil || errors.Is(err, bucket.ErrAway) {
				t.Fatalf("store %t, %v: want a fatal error", s != nil, err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\nlacks %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "wr0ng") {
				t.Errorf("the password is shown: %v", err)
			}
		})
	}
}

// Sentinels with a password of their own, and servers and sentinels behind TLS.
func TestSentinelsWithPasswordsAndTLS(t *testing.T) {
	t.Parallel()
	server := redistest.StartTLS(t, time.Now().Add(time.Hour), "--requirepass", "s3rver", "--tls-replication", "yes")
	locked := redistest.StartSentinel(t, server.Addr,
		"user default off", "user watcher on >s3ntinel +@all ~* &*")
	port := strconv.Itoa(testkit.FreePort(t))
	redistest.StartSentinel(t, server.TLSAddr, "requirepass s3ntinel", "tls-port "+port, "tls-replication yes",
		"tls-cert-file "+server.CertFile, "tls-key-file "+server.KeyFile, "tls-ca-cert-file "+server.CertFile)
	for name, c := range map[string]Config{
		"user": {Addrs: []string{locked.Addr}, SentinelUsername: "watcher", SentinelPassword: "s3ntinel"},
		"TLS": {
			Addrs: []string{"127.0.0.1:" + port}, SentinelPassword: "s3ntinel",
			CAFile: server.CertFile, CertFile: server.CertFile, KeyFile: server.KeyFile,
		},
	} {
		c.MasterName, c.Password, c.Timeout, c.Logger = redistest.MasterName, "s3rver", time.Second, patient("").Logger
		s, err := Open(t.Context(), c)
		if s != nil {
			trial.CloseLater(t, s)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
