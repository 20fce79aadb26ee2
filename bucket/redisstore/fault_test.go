package redisstore

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/faultproxy"
	"github.com/fastlimit/fastlimit/internal/redistest"
)

// site is a store with load on it, a server, and a bad line between.
type site struct {
	t      *testing.T
	server *redistest.Server
	admin  *redistest.Session
	proxy  *faultproxy.Proxy
	store  *Store
	load   *load
	logs   *logs
}

// brisk gives up early enough for a test and late enough for a noisy machine.
func brisk(addr string, l *logs) Config {
	return Config{
		URL: "redis://" + addr, Timeout: 20 * time.Millisecond, RetryMin: 20 * time.Millisecond, RetryMax: 200 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(l, nil)),
	}
}

type fault struct {
	name   string
	args   []string // of the server
	strike func(*site)
	heal   func(*site)
	class  Class // of the errors that must show up; None: none need to
	trips  bool  // the breaker must open
	lost   bool  // the server forgets
	direct bool  // without the proxy, which may lose a last word
}

func line(f faultproxy.Fault) func(*site) { return func(s *site) { s.proxy.Set(s.t, f) } }

func command(args ...string) func(*site) { return func(s *site) { s.admin.Do(args...) } }

func both(f ...func(*site)) func(*site) {
	return func(s *site) {
		for _, g := range f {
			g(s)
		}
	}
}

func cut(s *site) { s.proxy.Cut() }

var faults = []fault{
	{name: "refused", strike: line(faultproxy.Fault{Refuse: true}), heal: line(faultproxy.Fault{}), class: Refused, trips: true},
	{name: "accept then silent", strike: line(faultproxy.Fault{Silent: true}), heal: both(line(faultproxy.Fault{}), cut), class: Timeout, trips: true},
	{name: "reset mid-reply", strike: both(line(faultproxy.Fault{ResetAt: 7}), cut), heal: line(faultproxy.Fault{}), class: Reset, trips: true},
	{name: "resets now and then", strike: line(faultproxy.Fault{ResetOneIn: 20}), heal: line(faultproxy.Fault{}), class: Reset},
	{name: "slower than a connection lasts", strike: line(faultproxy.Fault{Delay: 300 * time.Millisecond}), heal: line(faultproxy.Fault{}), class: Timeout, trips: true},
	{name: "slow answers", strike: line(faultproxy.Fault{Delay: 40 * time.Millisecond}), heal: line(faultproxy.Fault{}), trips: true},
	{name: "1 byte per segment", strike: line(faultproxy.Fault{Slice: 1}), heal: line(faultproxy.Fault{})},
	{name: "garbage", strike: line(faultproxy.Fault{Garbage: []byte("HTTP/1.1 400 Bad Request\r\n\r\n")}), heal: line(faultproxy.Fault{}), class: Protocol, trips: true},
	{name: "NOSCRIPT", strike: command("SCRIPT", "FLUSH"), heal: command("SCRIPT", "FLUSH")},
	{
		name: "BUSY", args: []string{"--lua-time-limit", "10"}, class: Busy, trips: true,
		strike: func(s *site) { s.server.Session().Send("EVAL", "while true do end", "0") },
		heal:   func(s *site) { s.server.Do("SCRIPT", "KILL") },
	},
	{name: "LOADING", args: []string{"--loading-process-events-interval-bytes", "1024"}, strike: slowRestart, heal: func(s *site) { s.admin = s.server.Session() }, class: Loading, trips: true, lost: true},
	{name: "OOM", strike: command("CONFIG", "SET", "maxmemory", "1"), heal: command("CONFIG", "SET", "maxmemory", "0"), class: OOM, trips: true},
	{name: "READONLY", strike: command("REPLICAOF", "127.0.0.1", "1"), heal: command("REPLICAOF", "NO", "ONE"), class: ReadOnly, trips: true},
	{name: "NOREPLICAS", strike: command("CONFIG", "SET", "min-replicas-to-write", "1"), heal: command("CONFIG", "SET", "min-replicas-to-write", "0"), class: NoReplicas, trips: true},
	{
		name: "MASTERDOWN", strike: both(command("CONFIG", "SET", "replica-serve-stale-data", "no"), command("REPLICAOF", "127.0.0.1", "1")),
		heal: command("REPLICAOF", "NO", "ONE"), class: MasterDown, trips: true,
	},
	{
		name: "MISCONF", args: []string{"--enable-protected-configs", "yes"}, strike: failedSnapshot,
		heal: command("CONFIG", "SET", "stop-writes-on-bgsave-error", "no"), class: Misconf, trips: true,
	},
	// Its refusal is mostly lost to the reset that follows it.
	{
		name: "maxclients", direct: true, strike: both(command("CONFIG", "SET", "maxclients", "1"), command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")),
		heal: command("CONFIG", "SET", "maxclients", "1000"), trips: true,
	},
	{name: "NOAUTH", strike: both(command("CONFIG", "SET", "requirepass", "x"), cut), heal: command("CONFIG", "SET", "requirepass", ""), class: Auth, trips: true},
	{name: "NOPERM", strike: command("ACL", "SETUSER", "default", "-evalsha"), heal: command("ACL", "SETUSER", "default", "+evalsha"), class: NoPerm, trips: true},
	{name: "NOPERM in the script", strike: command("ACL", "SETUSER", "default", "-set"), heal: command("ACL", "SETUSER", "default", "+set"), class: NoPerm, trips: true},
	{name: "CLIENT PAUSE", strike: command("CLIENT", "PAUSE", "1000", "WRITE"), heal: func(*site) {}, class: Timeout, trips: true},
	{name: "SIGSTOP", strike: func(s *site) { s.server.Stop() }, heal: func(s *site) { s.server.Continue() }, class: Timeout, trips: true},
	{name: "kill -9 and restart", strike: func(s *site) { s.server.Kill() }, heal: func(s *site) { s.server.Run() }, trips: true, lost: true},
	{name: "FLUSHALL", strike: command("FLUSHALL"), heal: command("FLUSHALL"), lost: true},
}

// slowRestart leaves a snapshot of keys that take long to load.
func slowRestart(s *site) {
	s.admin.Do("EVAL", "for i = 1, 3000 do redis.call('SET', 'filler' .. i, string.rep('x', 1100)) end", "0")
	s.admin.Do("CONFIG", "SET", "rdbcompression", "no")
	s.admin.Do("SAVE")
	s.server.Kill()
	s.server.SetArgs("--loading-process-events-interval-bytes", "1024", "--key-load-delay", "1000")
	s.server.RunNoWait()
}

// failedSnapshot makes BGSAVE fail by removing its directory.
func failedSnapshot(s *site) {
	dir := filepath.Join(s.server.Dir, "gone")
	if err := os.Mkdir(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	s.admin.Do("CONFIG", "SET", "dir", dir)
	if err := os.Remove(dir); err != nil {
		s.t.Fatal(err)
	}
	s.admin.Do("CONFIG", "SET", "save", "3600 1")
	s.admin.Do("BGSAVE")
}

// Every fault of one server, under load: each operation has one outcome,
// nothing is charged twice, and the store recovers by itself.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			runFault(t, f)
		})
	}
}

// openBrisk opens a store that may find even a good server slow on a noisy
// machine; it recovers by itself.
func openBrisk(t *testing.T, c Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), c)
	if err != nil && !errors.Is(err, bucket.ErrAway) {
		t.Fatal(err)
	}
	closeLater(t, s)
	return s
}

func runFault(t *testing.T, f fault) {
	s := &site{t: t, server: redistest.Start(t, f.args...), logs: new(logs)}
	s.admin = s.server.Session()
	s.proxy = faultproxy.New(t, s.server.Addr, 7)
	addr := s.proxy.Addr()
	if f.direct {
		addr = s.server.Addr
	}
	s.store = openBrisk(t, brisk(addr, s.logs))
	s.load = startLoad(t, s.store)
	s.load.progress("works at first")

	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%+v\n%s", s.store.Stats(), s.logs)
		}
	})
	f.strike(s)
	redistest.Eventually(t, "the fault shows", func() bool {
		st := s.store.Stats()
		return (f.class == None || st.Errors[f.class.String()] > 0) && (!f.trips || st.Trips > 0)
	})
	if !f.trips {
		s.load.progress("works in spite of the fault")
	}
	f.heal(s)
	redistest.Eventually(t, "the breaker closes", func() bool { return s.store.Stats().State == "closed" })
	s.load.progress("works again")

	s.load.end()
	s.load.audit(func(key string) string { return s.server.Do("GET", key) }, f.lost)
	st := s.store.Stats()
	if opened := s.logs.count("redis is away"); uint64(opened) != st.Trips {
		t.Errorf("%d lines about %d trips", opened, st.Trips)
	}
	if alarms := s.logs.count("level=ERROR"); f.class.misconfigured() && alarms != 1 {
		t.Errorf("%d alarms, want 1:\n%s", alarms, s.logs)
	}
	if st.Queue != 0 {
		t.Errorf("%d operations left in the queue", st.Queue)
	}
}
