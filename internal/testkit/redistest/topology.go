//go:build linux

package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// Sentinels is a primary with one replica, watched by three sentinels.
type Sentinels struct {
	Primary, Replica *Server
	Watchers         []*Server
}

// MasterName is how the sentinels know the primary.
const MasterName = "buckets"

// StartSentinels starts all five processes and waits until the sentinels know
// each other and the replica.
func StartSentinels(t testkit.T) *Sentinels {
	t.Helper()
	s := &Sentinels{Primary: Start(t, "--repl-diskless-sync-delay", "0")}
	port := strconv.Itoa(s.Primary.Port)
	s.Replica = Start(t, "--replicaof", "127.0.0.1 "+port)
	for range 3 {
		s.Watchers = append(s.Watchers, startSentinel(t, fmt.Sprintf(
			"sentinel monitor %s 127.0.0.1 %s 2\nsentinel down-after-milliseconds %[1]s 500\nsentinel failover-timeout %[1]s 3000\n", MasterName, port)))
	}
	Eventually(t, "sentinels know each other and the replica", func() bool {
		for _, w := range s.Watchers {
			r := w.Do("SENTINEL", "MASTER", MasterName)
			if !strings.Contains(r, "num-other-sentinels\n2") || !strings.Contains(r, "num-slaves\n1") {
				return false
			}
		}
		return strings.Contains(s.Replica.Do("INFO", "replication"), "master_link_status:up")
	})
	return s
}

// StartSentinel starts a single sentinel that watches the server at addr, with
// further lines of configuration, and waits until it answers on its port; with
// TLS that is a second one, see [StartTLS].
func StartSentinel(t testkit.T, addr string, lines ...string) *Server {
	t.Helper()
	return startSentinel(t, fmt.Sprintf("%s\nsentinel monitor %s %s 1\n", strings.Join(lines, "\n"), MasterName, strings.Replace(addr, ":", " ", 1)))
}

func startSentinel(t testkit.T, config string) *Server {
	t.Helper()
	w := New(t)
	conf := filepath.Join(w.Dir, "sentinel.conf")
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\n%s", w.Port, w.Dir, config)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.exec([]string{conf, "--sentinel"})
	w.WaitReady()
	return w
}

// Addrs of the sentinels.
func (s *Sentinels) Addrs() []string { return addrs(s.Watchers) }

// Cluster is three primaries that share the slots evenly.
type Cluster struct{ Nodes []*Server }

// StartCluster starts it and waits until it serves.
func StartCluster(t testkit.T) *Cluster {
	t.Helper()
	c := new(Cluster)
	for i := range 3 {
		n := Start(t, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "2000")
		n.Do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*16384/3), strconv.Itoa((i+1)*16384/3-1))
		n.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		c.Nodes = append(c.Nodes, n)
	}
	for _, n := range c.Nodes[1:] {
		n.Do("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(c.Nodes[0].Port))
	}
	Eventually(t, "cluster serves", func() bool {
		for _, n := range c.Nodes {
			r := n.Do("CLUSTER", "INFO")
			if !strings.Contains(r, "cluster_state:ok") || !strings.Contains(r, "cluster_known_nodes:3") {
				return false
			}
		}
		return true
	})
	return c
}

// Addrs of the nodes.
func (c *Cluster) Addrs() []string { return addrs(c.Nodes) }

// Owner returns the node that serves slot.
func (c *Cluster) Owner(slot int) int {
	for i := range c.Nodes {
		if slot < (i+1)*16384/3 {
			return i
		}
	}
	return 0
}

// ID of a node.
func (c *Cluster) ID(node int) string { return c.Nodes[node].Do("CLUSTER", "MYID") }

// Eventually is that of testkit.
func Eventually(t testkit.T, what string, f func() bool) {
	t.Helper()
	testkit.Eventually(t, what, f)
}

func addrs(servers []*Server) []string {
	var a []string
	for _, s := range servers {
		a = append(a, s.Addr)
	}
	return a
}
