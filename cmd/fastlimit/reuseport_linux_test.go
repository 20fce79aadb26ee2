package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// TestReusePortLosesNobody: processes that replace each other again and again, each started before the one
// before is told to end, answer every request. The next one gets its admin, its cluster
// and what it knew, so that who is denied stays denied.
func TestReusePortLosesNobody(t *testing.T) {
	severalPrograms(t)
	t.Parallel()
	address, admin, dir := testkit.FreeAddr(t), testkit.FreeAddr(t), t.TempDir()
	secret := writeFile(t, "secret", strings.Repeat("s", 32))
	file := writeFile(t, "fastlimit.yaml", strict+fmt.Sprintf(`
listen: [{address: "%s", reuse_port: true}]
admin: "%s"
state_file: %s
cluster: {name: a, bind: "%s", secret_file: %s}
`, address, admin, filepath.Join(dir, "state"), testkit.FreeAddr(t), secret))
	url := "http://" + address + "/"
	begin := func() *process { return start(t, exec.Command(binary, "serve", "-c", file)) }
	p := begin()
	stop := visits(t, url)
	for range 3 {
		statusFor(t, url, "192.0.2.7")
	}
	for i := range testkit.Size(8, 20) {
		next := begin()
		p.signal(syscall.SIGTERM)
		if code := p.wait(); code != 0 {
			t.Errorf("process %d: exit code %d", i, code)
		}
		p = next
		for _, done := range []string{"took over the state of the previous process", "joined the cluster"} {
			if !p.logged(done) {
				p.waitLog(done)
			}
		}
		if got := statusFor(t, url, "192.0.2.7"); got != http.StatusTooManyRequests {
			t.Errorf("process %d: the attacker is answered %d", i, got)
		}
		if got := metric(t, p, "fastlimit_sync_peers"); got != "0" {
			t.Errorf("process %d: %s peers", i, got)
		}
	}
	if n := stop(); n < 20 {
		t.Errorf("%d requests", n)
	}
}

// TestReusePortMistakes: only what can be shared is.
func TestReusePortMistakes(t *testing.T) {
	t.Parallel()
	address := testkit.FreeAddr(t)
	share := func(listen, more string) *exec.Cmd {
		file := writeFile(t, "fastlimit.yaml", strict+"admin: 127.0.0.1:0\n"+fmt.Sprintf(listen, address)+more)
		return exec.Command(binary, "serve", "-c", file)
	}
	const shared = "listen: [{address: \"%s\", reuse_port: true}]\n"
	start(t, share(shared, ""))
	for _, c := range []struct{ listen, more, want string }{
		{"listen: \"%s\"\n", "", "another process uses it"},
		{"listen: [{address: unix:/%s.sock, reuse_port: true}]\n", "", "is for ports, and unix:/" + address + ".sock is none; remove it"},
		{shared, "kernel: {}\n", "two processes cannot drop for one port"},
	} {
		if out, err := share(c.listen, c.more).CombinedOutput(); err == nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s%s%v\n%s\nwant %s", c.listen, c.more, err, out, c.want)
		}
	}
}

// TestJoiningKeepsLists: what a list's file has got since the start is in force after the node has
// joined, too.
func TestJoiningKeepsLists(t *testing.T) {
	t.Parallel()
	other, err := net.Listen("tcp", "127.0.0.1:0") // as the process before
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	deny, secret := writeFile(t, "deny", ""), writeFile(t, "secret", strings.Repeat("s", 32))
	p := start(t, exec.Command(binary, "serve", "-c", writeFile(t, "fastlimit.yaml", strict+fmt.Sprintf(`
listen: [{address: "127.0.0.1:0", reuse_port: true}]
admin: "127.0.0.1:0"
deny: {file: %s}
cluster: {name: a, bind: "%s", secret_file: %s}
`, deny, other.Addr(), secret))))
	if err := os.Rename(writeFile(t, "new", "192.0.2.7\n"), deny); err != nil {
		t.Fatal(err)
	}
	p.waitLog("the list file was read again")
	other.Close()
	p.waitLog("joined the cluster")
	if got := statusFor(t, "http://"+p.listen+"/", "192.0.2.7"); got != http.StatusForbidden {
		t.Errorf("who is on the deny list is answered %d", got)
	}
}

// logged reports whether a line was logged already, of those that waitLog has passed.
func (p *process) logged(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Contains(p.log.String(), text)
}
