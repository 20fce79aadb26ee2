package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/redis/go-redis/v9"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		config Config
		want   string
	}{
		{Config{}, "set URL or Addrs"},
		{Config{URL: "redis://a", Addrs: []string{"b:1"}}, "Addrs: URL is set too: remove one of the two"},
		{Config{Addrs: []string{"a:1", "b:1"}}, "set master_name for sentinels, cluster: true for nodes of a cluster"},
		{Config{Addrs: []string{"a:1"}, MasterName: "m", Cluster: true}, "Cluster: true together with master_name: Sentinel and Cluster exclude each other"},
		{Config{URL: "redis://a", MasterName: "m"}, "MasterName: needs addresses, of the sentinels"},
		{Config{URL: "redis://a", Cluster: true, DB: 1}, "DB: a cluster has only database 0"},
		{Config{URL: "redis://a/1", Cluster: true}, "Cluster: a cluster has only database 0, and the URL names another"},
		{Config{URL: "redis://a", DB: -1}, "DB: -1 is not the number of a database"},
		{Config{URL: "redis://a", CertFile: "x"}, "CertFile: is set without key_file"},
		{Config{URL: "redis://a", Timeout: -1}, "Timeout: -1ns is out of range: want 0 to 1m"},
		{Config{URL: "redis://a", Timeout: time.Hour}, "Timeout: 1h0m0s is out of range"},
		{Config{URL: "redis://a", Workers: 65}, "Workers: 65 is out of range: want 1 to 64, or 0 for the default"},
		{Config{URL: "redis://a", SentinelPassword: "x"}, "SentinelPassword: needs master_name"},
		{Config{Addrs: []string{"a:1"}, MasterName: "m", SentinelUsername: "x"}, "SentinelUsername: is set without a password"},
		{Config{URL: "redis://a", ServerName: "x"}, "ServerName: has no meaning without TLS"},
		{Config{URL: "redis://a", RetryMin: 3 * time.Second}, "RetryMin: 3s is above retry_max, which is 2s"},
		{Config{URL: "redis://a", RetryMax: 50 * time.Millisecond}, "RetryMax: 50ms is below retry_min, which is 100ms"},
		{Config{URL: "redis://a", Queue: -1}, "Queue: -1 is out of range"},
		{Config{URL: "redis://a", CAFile: "/nonexistent"}, `CAFile: "/nonexistent" no such file: name a file that can be read`},
		{Config{URL: "redis://a", CAFile: os.DevNull}, `CAFile: "/dev/null" contains no certificate`},
		{Config{URL: "redis://a", CertFile: "/nonexistent", KeyFile: "/nonexistent"}, `CertFile: "/nonexistent" no such file`},
	} {
		s, err := Open(t.Context(), tt.config)
		if s != nil || err == nil || !strings.Contains(err.Error(), tt.want) || errors.Is(err, bucket.ErrAway) {
			t.Errorf("%+v: %v, want an error with %q", tt.config, err, tt.want)
		}
	}
}

// No error about a URL shows any of it.
func TestURLErrorsHideThePassword(t *testing.T) {
	t.Parallel()
	for _, u := range []string{
		"redis://:hunter2", "redis://u:hunter2@host:port", "redis://u:hunter#2@host", "redis://u:hunter/2@host/0",
		"http://u:hunter2@host", "hunter2", "redis://u:hunter2@host/a/b", "redis://u:hunter2@host/x", "redis://u:hunter%2@host",
		"redis://u:hunter2@host?max_retries=3", "unix://u:hunter2@", "redis://u:hunter2@[::1", " redis://u:hunter2@host",
	} {
		_, err := Open(t.Context(), Config{URL: u})
		if err == nil || strings.Contains(err.Error(), "hunter") || !strings.Contains(err.Error(), "percent-encoded") {
			t.Errorf("%q: %v", u, err)
		}
	}
}

func TestURL(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ url, addr, user, password, tls string }{
		{"redis://host", "host:6379", "", "", ""},
		{"redis://u:p%40ss@host:1/2", "host:1", "u", "p@ss", ""},
		{"rediss://:p@host:1", "host:1", "", "p", "host"},
		{"unix://u:p@/a/b.sock?db=2", "/a/b.sock", "u", "p", ""},
		{"redis://[::1]:1", "[::1]:1", "", "", ""},
	} {
		c := Config{URL: tt.url}.WithDefaults()
		o, err := c.options()
		if err != nil {
			t.Errorf("%s: %v", tt.url, err)
			continue
		}
		server := ""
		if o.TLSConfig != nil {
			server = o.TLSConfig.ServerName
		}
		if o.Addrs[0] != tt.addr || o.Username != tt.user || o.Password != tt.password || server != tt.tls {
			t.Errorf("%s: %v %q %q %q", tt.url, o.Addrs, o.Username, o.Password, server)
		}
	}
}

// The client must not send anything twice, whatever kind it is. A cluster
// client whose redirections are on sends whole batches again.
func TestClientNeverResends(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"single": {URL: "redis://a"}, "sentinel": {Addrs: []string{"a:1"}, MasterName: "m"}, "cluster": {Addrs: []string{"a:1"}, Cluster: true},
	} {
		d, err := newDriver(c, production)
		if err != nil {
			t.Fatal(err)
		}
		if d.client.cluster != nil {
			if o := d.client.cluster.Options(); o.MaxRedirects != 0 || o.MaxRetries > 0 {
				t.Errorf("cluster: MaxRedirects %d, MaxRetries %d", o.MaxRedirects, o.MaxRetries)
			}
		} else {
			o := d.client.UniversalClient.(*redis.Client).Options() // not a cluster
			if o.MaxRetries > 0 || o.ContextTimeoutEnabled || o.ReadTimeout != 25*time.Millisecond || o.DialTimeout != 200*time.Millisecond {
				t.Errorf("%s: %+v", name, o)
			}
		}
		_ = d.client.close()
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]*remote.Class{
		nil:                      nil,
		io.EOF:                   classReset,
		io.ErrUnexpectedEOF:      classReset,
		net.ErrClosed:            classReset,
		context.DeadlineExceeded: classTimeout,
		redis.ErrPoolTimeout:     classTimeout,
		&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}: classRefused,
		&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}:      classReset,
		&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}:                              classTimeout,
		newError(classOOM, io.EOF):                classOOM,
		errors.New("redis: can't parse \"SSH\""):  classProtocol,
		errors.New("redis: cluster has no nodes"): classRefused,
		errors.New("something else"):              classOther,
	} {
		if got := classify(err); got != want {
			t.Errorf("classify(%v) = %s, want %s", err, got, want)
		}
		if err != nil {
			if got := classify(fmt.Errorf("wrapped: %w", err)); got != want && want != classProtocol {
				t.Errorf("Classify of wrapped %v = %s, want %s", err, got, want)
			}
		}
	}
	for msg, want := range map[string]*remote.Class{
		"NOSCRIPT No matching script. Please use EVAL.":                                                                   classNoScript,
		"LOADING Redis is loading the dataset in memory":                                                                  classLoading,
		"BUSY Redis is busy running a script.":                                                                            classBusy,
		"OOM command not allowed when used memory > 'maxmemory'. script: 5f, on @user_script:1.":                          classOOM,
		"ERR Error running script (call to f_5f): @user_script:1: @user_script: 1: -OOM command not allowed":              classOOM,
		"ERR Error running script (call to f_5f): @user_script:1: -READONLY You can't write against a read only replica.": classReadOnly,
		"READONLY You can't write against a read only replica.":                                                           classReadOnly,
		"NOREPLICAS Not enough good replicas to write.":                                                                   classNoReplicas,
		"MISCONF Redis is configured to save RDB snapshots":                                                               classMisconf,
		"MASTERDOWN Link with MASTER is down":                                                                             classMasterDown,
		"CLUSTERDOWN Hash slot not served":                                                                                classClusterDown,
		"TRYAGAIN Multiple keys request during rehashing of slot":                                                         classClusterDown,
		"MOVED 1 127.0.0.1:1":                                                              classClusterDown,
		"ERR max number of clients reached":                                                classMaxClients,
		"NOAUTH Authentication required.":                                                  classAuth,
		"WRONGPASS invalid username-password pair or user is disabled.":                    classAuth,
		"ERR AUTH <password> called without any password configured for the default user.": classAuth,
		"ERR The user executing the script can't run this command or subcommand":           classNoPerm,
		"NOPERM ACL failure in script: User x has no permissions to run the 'set' command": classNoPerm,
		"ERR ACL failure in script: x":                                                     classNoPerm,
		"NOPERM this user has no permissions to run the 'evalsha' command":                 classNoPerm,
		"WRONGTYPE Operation against a key holding the wrong kind of value":                classWrongType,
		"CORRUPT not a bucket":                                                             classCorrupt,
		"CROSSSLOT Keys in request don't hash to the same slot":                            classCrossSlot,
		"ERR unknown command":                                                              classOther,
	} {
		if got := classifyReply(msg); got != want {
			t.Errorf("classifyReply(%q) = %s, want %s", msg, got, want)
		}
	}
}

// Every class is in the list, or its first error would be the end of a worker,
// and has a name of its own.
func TestEveryClassIsListed(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("errors.go")
	if err != nil {
		t.Fatal(err)
	}
	if made := strings.Count(string(source), "&remote.Class{"); made != len(classes) {
		t.Errorf("%d classes are made, %d listed", made, len(classes))
	}
	seen := make(map[string]bool)
	for _, c := range classes {
		if c.Name == "" || seen[c.Name] {
			t.Errorf("class name %q is empty or twice there", c.Name)
		}
		seen[c.Name] = true
	}
}

// What remote asks a driver to tell apart.
func TestClassifyForRemote(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]*remote.Class{
		context.DeadlineExceeded: classTimeout, bucket.ErrAlgorithm: classUnsupported, refusal("LATE not carried out"): classLate,
	} {
		if e := new(driver).Classify(err); e.Class != want || !errors.Is(e, err) {
			t.Errorf("%v: class %s, want %s", err, e.Class, want)
		}
	}
}
