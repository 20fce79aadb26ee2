package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// restarting is a node of a cluster of two that keeps its bans in a file.
type restarting struct {
	*process
	name, file, state string
}

func newRestarting(t *testing.T, name string) *restarting {
	t.Helper()
	dir := t.TempDir()
	return &restarting{name: name, file: filepath.Join(dir, "fastlimit.yaml"), state: filepath.Join(dir, "state")}
}

// write writes the configuration, with a limit and the peer to join.
func (n *restarting) write(t *testing.T, limit string, seeds ...string) {
	t.Helper()
	text := strings.Replace(clusterSettings(n.name, "127.0.0.1:0", seeds), "cluster: {", "cluster: {accept_bans: true, ", 1) +
		"state_file: " + n.state + "\ndrain: {delay: 0s}\nmemory: 4MiB\n" +
		"rules: [{name: per-ip, rate: " + limit + ", burst: 2, strict: true, ban: {after: 3, within: 1m, for: 1h, max: 1h}}]\n"
	if err := os.WriteFile(n.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (n *restarting) start(t *testing.T) { t.Helper(); n.process = serve(t, "-c", n.file) }

func (n *restarting) bans(t *testing.T, client, by string) bool {
	t.Helper()
	_, body := get(t, http.DefaultClient, "http://"+n.admin+"/v1/bans")
	return strings.Contains(body, fmt.Sprintf(`{"key":%q,"rule":"per-ip","by":%q,`, client, by))
}

func (n *restarting) command(t *testing.T, args ...string) {
	t.Helper()
	if code, _, stderr := command(t, nil, append(args, "--admin", n.admin)...); code != 0 {
		t.Fatalf("%q: exit %d: %s", args, code, stderr)
	}
}

// What a node has banned it can take back from the other one, whichever of the two is
// restarted in between, and by whichever limit.
func TestBansAcrossRestarts(t *testing.T) {
	severalPrograms(t)
	t.Parallel()
	a, b := newRestarting(t, "n0"), newRestarting(t, "n1")
	a.write(t, "1/h")
	a.start(t)
	b.write(t, "1/h", a.clusterAddr(t))
	b.start(t)
	b.waitPeers(t, 1)
	clients := []string{"127.0.8.1", "127.0.8.2", "127.0.8.3", "127.0.8.4"}
	for _, client := range clients {
		for range 2 + 3 {
			get(t, clientFrom(t, client), "http://"+a.listen+"/")
		}
		redistest.Eventually(t, "the ban at the other node", func() bool { return b.bans(t, client, "node") })
	}
	gone := func(client string) {
		t.Helper()
		redistest.Eventually(t, "the end of the ban of "+client, func() bool { return !b.bans(t, client, "node") })
	}

	// The node that has banned is restarted.
	a.terminate()
	a.write(t, "1/h", b.clusterAddr(t))
	a.start(t)
	a.waitPeers(t, 1)
	if !a.bans(t, clients[0], "rule") {
		t.Fatal("a restart has lost a ban")
	}
	a.command(t, "unban", clients[0])
	gone(clients[0])

	// The other one is, and misses the end of a ban.
	b.terminate()
	a.command(t, "unban", clients[1])
	b.write(t, "1/h", a.clusterAddr(t))
	b.start(t)
	b.waitPeers(t, 1)
	gone(clients[1])

	// Both have another limit.
	for _, n := range []*restarting{a, b} {
		text, err := os.ReadFile(n.file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(n.file, []byte(strings.Replace(string(text), "rate: 1/h", "rate: 2/h", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		n.command(t, "reload")
	}
	a.command(t, "unban", clients[2])
	gone(clients[2])

	if !a.bans(t, clients[3], "rule") || !b.bans(t, clients[3], "node") {
		t.Error("a ban that nobody has ended is gone")
	}
}
