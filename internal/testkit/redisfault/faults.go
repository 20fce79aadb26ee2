//go:build linux

package redisfault

import (
	"strings"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/faultproxy"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// All are the faults.
func All() []Fault { return append(append([]Fault(nil), lineFaults...), serverFaults...) }

// None is no fault, to compare with.
func None() Fault { return Fault{Name: "none", strike: func(*Site) {}} }

var faithful = line(faultproxy.Fault{})

// lineFaults are faults of the connection and of name resolution. The server is
// healthy.
var lineFaults = []Fault{
	{Name: "refused", strike: line(faultproxy.Fault{Refuse: true}), heal: faithful, Class: "refused", Trips: true},
	{Name: "packets swallowed", strike: line(faultproxy.Fault{BlackHole: true}), heal: faithful, Class: "timeout", Trips: true},
	{Name: "accept then silent", strike: line(faultproxy.Fault{Silent: true}), heal: both(faithful, cut), Class: "timeout", Trips: true},
	{Name: "reset mid-reply", strike: both(line(faultproxy.Fault{ResetAt: 7}), cut), heal: faithful, Class: "reset", Trips: true},
	{Name: "reply cut short", strike: both(line(faultproxy.Fault{CloseAt: 7}), cut), heal: faithful, Class: "reset", Trips: true},
	{Name: "resets now and then", strike: line(faultproxy.Fault{ResetOneIn: 20}), heal: faithful, Class: "reset"},
	{Name: "slower than a connection lasts", strike: line(faultproxy.Fault{Delay: 300 * time.Millisecond}), heal: faithful, Class: "timeout", Trips: true},
	{Name: "slow answers", strike: line(faultproxy.Fault{Delay: 40 * time.Millisecond}), heal: faithful, Trips: true},
	{Name: "1 byte per segment", strike: line(faultproxy.Fault{Slice: 1}), heal: faithful},
	{Name: "garbage", strike: line(faultproxy.Fault{Garbage: []byte("HTTP/1.1 400 Bad Request\r\n\r\n")}), heal: faithful, Class: "protocol", Trips: true},
	{Name: "name unknown", byName: true, strike: both(name(unknown), cut), heal: name(known), Class: "refused", Trips: true},
	{Name: "name server fails", byName: true, strike: both(name(broken), cut), heal: name(known), Class: "refused", Trips: true},
	{Name: "name server silent", byName: true, strike: both(name(silent), cut), heal: name(known), Class: "timeout", Trips: true},
	{Name: "name moves", byName: true, strike: moveName, Lost: true, Trips: true},
	{Name: "no file descriptors", direct: true, Process: true, strike: both(noFiles, dropClients), Class: "nofile", Trips: true},
}

// serverFaults are faults of the server, or mistakes of its operator.
var serverFaults = []Fault{
	{Name: "NOSCRIPT", strike: command("SCRIPT", "FLUSH"), heal: command("SCRIPT", "FLUSH")},
	{
		Name: "BUSY", args: []string{"--lua-time-limit", "10"}, Class: "busy", Trips: true,
		strike: func(s *Site) { s.server.Session().Send("EVAL", "while true do end", "0") },
		heal:   func(s *Site) { s.server.Do("SCRIPT", "KILL") },
	},
	{
		Name: "LOADING", args: slowLoading, strike: slowRestart,
		heal: func(s *Site) { s.server.WaitReady(); s.admin = s.server.Session() }, Class: "loading", Trips: true, Lost: true,
	},
	{Name: "OOM", strike: command("CONFIG", "SET", "maxmemory", "1"), heal: command("CONFIG", "SET", "maxmemory", "0"), Class: "oom", Trips: true},
	{Name: "eviction", strike: evict, heal: command("CONFIG", "SET", "maxmemory", "0"), Lost: true},
	{Name: "READONLY", strike: command("REPLICAOF", "127.0.0.1", "1"), heal: command("REPLICAOF", "NO", "ONE"), Class: "readonly", Trips: true},
	{
		Name: "NOREPLICAS", strike: command("CONFIG", "SET", "min-replicas-to-write", "1"),
		heal: command("CONFIG", "SET", "min-replicas-to-write", "0"), Class: "noreplicas", Trips: true,
	},
	{
		Name: "MASTERDOWN", strike: both(command("CONFIG", "SET", "replica-serve-stale-data", "no"), command("REPLICAOF", "127.0.0.1", "1")),
		heal: command("REPLICAOF", "NO", "ONE"), Class: "masterdown", Trips: true,
	},
	{
		Name: "MISCONF", args: []string{"--enable-protected-configs", "yes"}, strike: failedSnapshot,
		heal: command("CONFIG", "SET", "stop-writes-on-bgsave-error", "no"), Class: "misconf", Trips: true,
	},
	{
		Name: "CLUSTERDOWN", args: []string{"--cluster-enabled", "yes"}, setup: ownAllSlots,
		strike: command("CLUSTER", "DELSLOTS", "0"), heal: command("CLUSTER", "ADDSLOTS", "0"), Class: "clusterdown", Trips: true,
	},
	// A standalone server comes back as a cluster, which refuses scripts over keys of
	// several slots.
	{Name: "CROSSSLOT", strike: becomeCluster, heal: func(*Site) {}, Trips: true, Lost: true},
	// No class: the reset that follows mostly overtakes the error reply.
	{
		Name: "maxclients", direct: true, strike: both(command("CONFIG", "SET", "maxclients", "1"), dropClients),
		heal: command("CONFIG", "SET", "maxclients", "1000"), Trips: true,
	},
	{Name: "NOAUTH", strike: both(command("CONFIG", "SET", "requirepass", "x"), cut), heal: command("CONFIG", "SET", "requirepass", ""), Class: "auth", Trips: true},
	{Name: "NOPERM", strike: command("ACL", "SETUSER", "default", "-evalsha"), heal: command("ACL", "SETUSER", "default", "+evalsha"), Class: "noperm", Trips: true},
	{Name: "NOPERM in the script", strike: command("ACL", "SETUSER", "default", "-set"), heal: command("ACL", "SETUSER", "default", "+set"), Class: "noperm", Trips: true},
	{Name: "CLIENT PAUSE", strike: command("CLIENT", "PAUSE", "1000", "WRITE"), heal: command("CLIENT", "UNPAUSE"), Class: "timeout", Trips: true},
	{Name: "SIGSTOP", strike: func(s *Site) { s.server.Stop() }, heal: func(s *Site) { s.server.Continue() }, Class: "timeout", Trips: true},
	{Name: "kill -9 and restart", strike: func(s *Site) { s.server.Kill() }, heal: func(s *Site) { s.server.Run() }, Trips: true, Lost: true},
	{Name: "FLUSHALL", strike: command("FLUSHALL"), heal: command("FLUSHALL"), Lost: true},
	{Name: "clock steps back", strike: stepClock(-time.Hour), heal: stepClock(-time.Minute)},
	{Name: "clock steps forward", strike: stepClock(36 * time.Hour), heal: stepClock(time.Minute), Lost: true},
}

func name(a resolution) func(*Site) { return func(s *Site) { names.set(s.name, a) } }

// moveName starts another server at the same port of another address, stops the
// first, and points the name at the new one.
func moveName(s *Site) {
	s.proxy.Set(s.t, faultproxy.Fault{Refuse: true})
	s.server.Kill()
	s.server = redistest.Start(s.t)
	s.admin = s.server.Session()
	_, port, _ := strings.Cut(s.proxy.Addr(), ":")
	s.proxy = faultproxy.NewAt(s.t, "127.0.0.2:"+port, s.server.Addr, 7)
	names.set(s.name, resolution{127, 0, 0, 2})
}
