package redisstore

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket/registry"
	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/fastlimit/fastlimit/bucket/storetest/trial"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// The primary dies; Sentinel promotes the replica, and the store follows. The
// replica has not seen the scripts, and the last takes may be lost.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	trio := redistest.StartSentinels(t)
	l := new(testkit.Log)
	c := brisk("", l)
	c.URL, c.Addrs, c.MasterName = "", trio.Addrs(), redistest.MasterName
	s := openBrisk(t, c)
	load := trial.StartLoad(t, s)
	load.Progress("works at first")
	r := s.Registry("overrides")
	t.Cleanup(func() { _ = r.Close() })
	keeps(t, r, "a")
	trio.Primary.Do("WAIT", "1", "0")
	trio.Primary.Kill()
	redistest.Eventually(t, "the breaker opens", func() bool { return s.Stats().Trips > 0 })
	redistest.Eventually(t, "the replica is promoted", func() bool {
		role, _ := trio.Replica.Try("ROLE") // Sentinel cuts all clients when it promotes
		return strings.HasPrefix(role, "master")
	})
	redistest.Eventually(t, "the breaker closes", func() bool { return s.Stats().State == "closed" })
	load.Progress("works on the new primary")
	load.End()
	keeps(t, r, "a", "b")
	load.Audit(charged(t, func(key string) string { return trio.Replica.Do("GET", key) }), true)
	if s.Stats().Loads == 0 {
		t.Error("the scripts were not loaded again")
	}
}

// A slot moves under load: ASK while it is on its way, MOVED afterwards, and a
// node that has not seen the scripts. No take fails, none is charged twice.
func TestClusterSlotMove(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	for _, n := range cluster.Nodes {
		n.Do(slices.Concat([]string{"ACL", "SETUSER", "good", "on", ">s3cret", "+cluster|slots", "+asking"}, acl, registryACL(t))...)
	}
	c := patient("")
	c.URL, c.Addrs, c.Cluster = "", cluster.Addrs(), true
	c.Username, c.Password = "good", "s3cret"
	s := mustOpen(t, c)
	load := trial.StartLoad(t, s)
	load.Progress("works at first")

	r := s.Registry("overrides")
	t.Cleanup(func() { _ = r.Close() })
	keeps(t, r, "a")
	moved := make(map[int]int) // slot to new owner
	for _, key := range []string{"!overrides", trial.LoadKey(0), trial.LoadKey(1), trial.LoadKey(2), trial.LoadKey(3)} {
		slot := slotOf(t, cluster, defaultPrefix+key)
		from := cluster.Owner(slot)
		if to, ok := moved[slot]; ok || to == from {
			continue
		}
		to := (from + 1) % 3
		moved[slot] = to
		cluster.Nodes[to].Do("SCRIPT", "FLUSH")
		keeps(t, r, "a", "b")
		moveSlot(t, cluster, slot, from, to, func() {
			load.Progress("works while the slot is on its way")
			keeps(t, r, "a", "b", "c")
		})
		load.Progress("works after the move")
		keeps(t, r, "a", "b", "c", "d")
	}
	load.End()
	load.Audit(charged(t, func(key string) string {
		slot := slotOf(t, cluster, key)
		node := cluster.Owner(slot)
		if to, ok := moved[slot]; ok {
			node = to
		}
		return cluster.Nodes[node].Do("GET", key)
	}), false)
	st := s.Stats()
	if load.Failed.Load() != 0 || st.Resent == 0 {
		t.Errorf("%d takes failed, %d were sent again; want none and some: %v", load.Failed.Load(), st.Resent, st.Errors)
	}
}

// keeps adds the last of some records to a registry, which has the others.
func keeps(t *testing.T, r registry.Store, names ...string) {
	t.Helper()
	for _, name := range names[len(names)-1:] {
		if err := r.Put(t.Context(), name, name, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	c, err := r.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, record := range c.Records {
		have = append(have, record.Name)
	}
	for _, name := range names {
		if !slices.Contains(have, name) {
			t.Errorf("the registry has %q, not %q", have, name)
		}
	}
}

func slotOf(t *testing.T, c *redistest.Cluster, key string) int {
	t.Helper()
	n, err := strconv.Atoi(c.Nodes[0].Do("CLUSTER", "KEYSLOT", key))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func moveSlot(t *testing.T, c *redistest.Cluster, slot, from, to int, between func()) {
	t.Helper()
	s := strconv.Itoa(slot)
	c.Nodes[to].Do("CLUSTER", "SETSLOT", s, "IMPORTING", c.ID(from))
	c.Nodes[from].Do("CLUSTER", "SETSLOT", s, "MIGRATING", c.ID(to))
	for key := range strings.FieldsSeq(c.Nodes[from].Do("CLUSTER", "GETKEYSINSLOT", s, "100")) {
		c.Nodes[from].Do("MIGRATE", "127.0.0.1", strconv.Itoa(c.Nodes[to].Port), key, "0", "5000")
	}
	between()
	for _, node := range []int{to, from, 3 - to - from} {
		c.Nodes[node].Do("CLUSTER", "SETSLOT", s, "NODE", c.ID(to))
	}
}

// A node of three dies: its keys fail at once, the others' go on, and the
// breaker stays closed.
func TestClusterNodeDown(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	for _, n := range cluster.Nodes {
		n.Do("CONFIG", "SET", "cluster-require-full-coverage", "no")
	}
	c := patient("")
	c.URL, c.Addrs, c.Cluster = "", cluster.Addrs(), true
	s := mustOpen(t, c)
	load := trial.StartLoad(t, s)
	load.Progress("works at first")
	cluster.Nodes[2].Kill()
	redistest.Eventually(t, "operations fail", func() bool { return load.Failed.Load() > 0 })
	load.Progress("the other nodes work")
	cluster.Nodes[2].Run()
	failed := uint64(math.MaxUint64)
	redistest.Eventually(t, "all work again", func() bool {
		before := failed
		failed = load.Failed.Load()
		load.Progress("goes on")
		return failed == before && load.Failed.Load() == failed
	})
	load.End()
	load.Audit(charged(t, func(key string) string {
		return cluster.Nodes[cluster.Owner(slotOf(t, cluster, key))].Do("GET", key)
	}), true)
}

// All nodes of three die and two come back: their keys are decided there again, although the
// third stays away.
func TestClusterBackWithoutANode(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	c := patient("")
	c.URL, c.Addrs, c.Cluster = "", cluster.Addrs(), true
	s := mustOpen(t, c)
	load := trial.StartLoad(t, s)
	load.Progress("works at first")
	for _, n := range cluster.Nodes {
		n.Kill()
	}
	redistest.Eventually(t, "the breaker opens", func() bool { return s.Stats().Trips > 0 })
	for _, n := range cluster.Nodes[:2] {
		n.Run()
		n.Do("CONFIG", "SET", "cluster-require-full-coverage", "no")
	}
	load.Progress("two nodes of three work")
	load.End()
}

// A cluster behind one address, as some providers have it: it refuses commands
// for keys in several slots, once for each worker at most, and then gets its
// keys one by one.
func TestClusterBehindOneAddress(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--cluster-enabled", "yes")
	server.Do("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	redistest.Eventually(t, "the cluster serves", func() bool {
		return strings.Contains(server.Do("CLUSTER", "INFO"), "cluster_state:ok")
	})
	s := mustOpen(t, patient(server.Addr))
	load := trial.StartLoad(t, s)
	load.Progress("works")
	load.Progress("goes on")
	load.End()
	load.Audit(charged(t, func(key string) string { return server.Do("GET", key) }), false)
	if !strings.Contains(server.Do("INFO", "errorstats"), "errorstat_CROSSSLOT:count=1\r\n") || load.Failed.Load() != 0 {
		t.Errorf("%d takes failed; errors %s; want one CROSSSLOT, at the start", load.Failed.Load(), server.Do("INFO", "errorstats"))
	}
}

// One node of several is no Redis to work with, and that is said at the start.
func TestOneNodeOfACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	for _, n := range cluster.Nodes {
		s, err := Open(t.Context(), patient(n.Addr))
		if s != nil || classify(err) != classCrossSlot || !strings.Contains(err.Error(), "set cluster") {
			t.Errorf("Open: %v, %v; want no store and an error that says how", s, err)
		}
	}
}

// A new password is for all nodes of a cluster, and for what sentinels name.
func TestRenewBehindTopologies(t *testing.T) {
	t.Parallel()
	cluster, trio := redistest.StartCluster(t), redistest.StartSentinels(t)
	for name, x := range map[string]struct {
		servers []*redistest.Server
		config  Config
	}{
		"cluster":   {cluster.Nodes, Config{Addrs: cluster.Addrs(), Cluster: true}},
		"sentinels": {[]*redistest.Server{trio.Primary, trio.Replica}, Config{Addrs: trio.Addrs(), MasterName: redistest.MasterName}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everywhere := func(args ...string) {
				for _, n := range x.servers {
					n.Do(args...)
				}
			}
			everywhere("ACL", "SETUSER", "node", "on", ">first", "~*", "+@all")
			c := brisk("", new(testkit.Log))
			c.URL, c.Addrs, c.Cluster, c.MasterName = "", x.config.Addrs, x.config.Cluster, x.config.MasterName
			c.Username, c.Password = "node", "first"
			s := openBrisk(t, c)
			r := s.Registry("live")
			t.Cleanup(func() { _ = r.Close() })
			trial.Renewal{
				Store: s, Registry: r, Stats: func() remote.Stats { return s.Stats().Stats },
				Change: func() {
					everywhere("ACL", "SETUSER", "node", "resetpass", ">second")
					everywhere("CLIENT", "KILL", "USER", "node")
					c.Password = "second"
				},
				Renew: func() error { return s.Renew(c) },
			}.Run(t)
		})
	}
}
