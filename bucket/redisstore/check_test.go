package redisstore

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/fastlimit/fastlimit/bucket/storetest/trial"
	"github.com/fastlimit/fastlimit/internal/testkit/faultproxy"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// acl is what docs/redis.md tells to grant.
var acl = []string{"~fastlimit:*", "+ping", "+info", "+script|load", "+evalsha", "+time", "+mget", "+set"}

// What is wrong at the start is said at the start, with the fix; what may pass
// comes with a store.
func TestOpen(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--unixsocket", "redis.sock")
	good := append([]string{"ACL", "SETUSER", "good", "on", ">s3cret"}, acl...)
	server.Do(good...)
	for i, grant := range acl {
		if grant == "+info" {
			continue // only tells the version
		}
		rest := append(append([]string{}, acl[:i]...), acl[i+1:]...)
		server.Do(append([]string{"ACL", "SETUSER", "no" + grant, "on", ">s3cret"}, rest...)...)
	}
	replica := redistest.Start(t, "--replicaof", "127.0.0.1 1")
	plain := func(c Config) Config { c.URL = "redis://" + server.Addr; return c }
	as := func(user string) Config { return plain(Config{Username: user, Password: "s3cret"}) }

	type want struct {
		class *remote.Class
		away  bool
		fatal bool // no store though waiting may help
		text  string
	}
	for name, tt := range map[string]struct {
		config Config
		want   want
	}{
		"plain":                 {plain(Config{}), want{}},
		"database":              {Config{URL: "redis://" + server.Addr + "/3"}, want{}},
		"unix socket":           {Config{URL: "unix://" + server.Dir + "/redis.sock"}, want{}},
		"ACL user in the URL":   {Config{URL: "redis://good:s3cret@" + server.Addr}, want{}},
		"ACL user":              {as("good"), want{}},
		"one address":           {Config{Addrs: []string{server.Addr}}, want{}},
		"wrong password":        {plain(Config{Username: "good", Password: "wr0ng"}), want{class: classAuth, text: "check username and password"}},
		"no other keys":         {plain(Config{Username: "good", Password: "s3cret", KeyPrefix: "x:"}), want{class: classNoPerm, text: "docs/redis.md"}},
		"no right to keys":      {as("no~fastlimit:*"), want{class: classNoPerm}},
		"no right to evalsha":   {as("no+evalsha"), want{class: classNoPerm, text: "evalsha"}},
		"no right to load":      {as("no+script|load"), want{class: classNoPerm, text: "script"}},
		"no right to ping":      {as("no+ping"), want{class: classNoPerm, text: "ping"}},
		"no right to time":      {as("no+time"), want{class: classNoPerm, text: "time"}},
		"no right to mget":      {as("no+mget"), want{class: classNoPerm, text: "docs/redis.md"}},
		"no right to set":       {as("no+set"), want{class: classNoPerm, text: "docs/redis.md"}},
		"replica":               {Config{URL: "redis://" + replica.Addr}, want{class: classReadOnly, away: true, fatal: true, text: "name the primary"}},
		"nobody listens":        {Config{URL: "redis://127.0.0.1:1"}, want{class: classRefused, away: true}},
		"no socket":             {Config{URL: "unix:///nonexistent/redis.sock"}, want{class: classRefused, away: true}},
		"black hole":            {Config{URL: "redis://" + faultproxy.BlackHole(t)}, want{class: classTimeout, away: true}},
		"not Redis":             {Config{URL: "redis://" + talker(t, "SSH-2.0-OpenSSH_9.2\r\n")}, want{class: classProtocol, text: "check that the address is Redis"}},
		"not TLS":               {Config{URL: "rediss://" + server.Addr}, want{class: classProtocol, text: "does not speak TLS, and the connection wants it: write redis://"}},
		"no sentinel listens":   {Config{Addrs: []string{"127.0.0.1:1"}, MasterName: "x"}, want{class: classRefused, away: true}},
		"no cluster listens":    {Config{Addrs: []string{"127.0.0.1:1"}, Cluster: true}, want{class: classRefused, away: true}},
		"not a cluster":         {Config{Addrs: []string{server.Addr}, Cluster: true}, want{class: classOther}},
		"a sentinel's stranger": {Config{Addrs: []string{server.Addr}, MasterName: "x"}, want{class: classOther}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := tt.config
			c.Timeout, c.Logger = timeoutFor(name), patient("").Logger
			s, err := Open(t.Context(), c)
			if s != nil {
				trial.CloseLater(t, s)
			}
			if got := classify(err); got != tt.want.class || errors.Is(err, bucket.ErrAway) != tt.want.away {
				t.Fatalf("Open: class %s, %v; want class %s, away %v", got, err, tt.want.class, tt.want.away)
			}
			if (s != nil) != (err == nil || tt.want.away && !tt.want.fatal) {
				t.Errorf("store %v with error %v", s, err)
			}
			if err != nil && (!strings.Contains(err.Error(), tt.want.text) || strings.Contains(err.Error(), "cret")) {
				t.Errorf("error %q: want %q in it, and no password", err, tt.want.text)
			}
		})
	}
}

// timeoutFor is short where no answer comes, and else long enough for a machine
// that is busy with other tests.
func timeoutFor(name string) time.Duration {
	switch name {
	case "black hole", "not TLS", "TLS to plain", "TLS to a plain sentinel":
		return 20 * time.Millisecond
	}
	return time.Second
}

func TestTLS(t *testing.T) {
	t.Parallel()
	server := redistest.StartTLS(t, time.Now().Add(time.Hour))
	expired := redistest.StartTLS(t, time.Now().Add(-time.Hour))
	ours := Config{URL: "rediss://" + server.TLSAddr, CAFile: server.CertFile, CertFile: server.CertFile, KeyFile: server.KeyFile}
	unknown, old, noCert, addrs := ours, ours, ours, ours
	unknown.CAFile = ""
	old.URL, old.CAFile = "rediss://"+expired.TLSAddr, expired.CertFile
	noCert.CertFile, noCert.KeyFile = "", ""
	addrs.URL, addrs.Addrs = "", []string{server.TLSAddr}
	for name, tt := range map[string]struct {
		config Config
		text   string
	}{
		"mutual": {ours, ""}, "by address": {addrs, ""}, "unknown authority": {unknown, "unknown authority"},
		"expired": {old, "expired"},
	} {
		c := tt.config
		c.Timeout, c.Logger = time.Second, patient("").Logger
		s, err := Open(t.Context(), c)
		if s != nil {
			trial.CloseLater(t, s)
		}
		if tt.text == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if classify(err) != classProtocol || !strings.Contains(err.Error(), tt.text) || s != nil {
			t.Errorf("%s: %v, store %v; want class protocol with %q", name, err, s, tt.text)
		}
	}
	noCert.Timeout, noCert.Logger = time.Second, patient("").Logger
	s, err := Open(t.Context(), noCert)
	if s != nil {
		trial.CloseLater(t, s)
	}
	if err == nil { // TLS 1.3 tells the client so late that a reset may come first
		t.Error("no client certificate: no error")
	}
}

// A Redis that is away at the start is used as soon as it comes.
func TestStartsLater(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	s, err := Open(t.Context(), patient(server.Addr))
	if !errors.Is(err, bucket.ErrAway) || s == nil {
		t.Fatalf("Open: %v, %v; want a store and ErrAway", s, err)
	}
	trial.CloseLater(t, s)
	server.Run()
	l := trial.StartLoad(t, s)
	l.Progress("works once Redis has come")
	l.End()
}

func TestCheckInfo(t *testing.T) {
	t.Parallel()
	for info, want := range map[string]*remote.Class{
		"":                        nil,
		"redis_version:6.2.0\r\n": nil,
		"# Server\r\nredis_version:7.0.15\r\nrole:master\r\n":                     nil,
		"redis_version:10.1\r\n":                                                  nil,
		"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n":   nil,
		"redis_version:6.0.16\r\n":                                                classOther,
		"redis_version:5.0.7\r\n":                                                 classOther,
		"redis_version:banana\r\n":                                                classOther,
		"redis_version:7.0.0\r\nrole:slave\r\nmaster_host:a\r\nmaster_port:1\r\n": classReadOnly,
	} {
		if err := checkInfo(info); classify(err) != want {
			t.Errorf("checkInfo(%q) = %v, want class %s", info, err, want)
		}
	}
}

// talker says the same to everybody.
func talker(t *testing.T, greeting string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(greeting))
			_ = c.(*net.TCPConn).CloseWrite() // of a TCP listener
			buf := make([]byte, 4096)
			for _, err := c.Read(buf); err == nil; _, err = c.Read(buf) {
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}
