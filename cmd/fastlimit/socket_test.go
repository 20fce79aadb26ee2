package main

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
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

// serveFile starts the binary with a file and no flags.
func serveFile(t *testing.T, text string) *process {
	t.Helper()
	return start(t, exec.Command(binary, "serve", "-c", writeFile(t, "c.yaml", text)))
}

const perIP = "rules: [{name: per-ip, key: ip, rate: 1/h, burst: 2, strict: true}]\n"

// getFrom asks with fields of the request, each "Name: value".
func getFrom(t *testing.T, c *http.Client, url string, fields ...string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		req.Header.Add(name, value)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// Traffic and admin on sockets: permissions, start line, /v1/info, the client that a
// trusted proxy names, top; and both paths are gone at the end.
func TestUnixSockets(t *testing.T) {
	t.Parallel()
	dir := testkit.ShortDir(t)
	traffic, adminPath := filepath.Join(dir, "http.sock"), filepath.Join(dir, "admin.sock")
	p := serveFile(t, fmt.Sprintf("listen: [{address: unix:%s, mode: \"0620\"}]\nadmin: unix:%s\ntrusted_proxies: [127.0.0.1]\n%s", traffic, adminPath, perIP))
	if p.listen != "unix:"+traffic || p.admin != "unix:"+adminPath {
		t.Errorf("the start line has %s and %s", p.listen, p.admin)
	}
	for path, mode := range map[string]fs.FileMode{traffic: 0o620, adminPath: 0o600} {
		if info, err := os.Lstat(path); err != nil || info.Mode() != fs.ModeSocket|mode {
			t.Errorf("%s: %v %v", path, info.Mode(), err)
		}
	}
	c, a := socketClient(traffic), socketClient(adminPath)
	defer c.CloseIdleConnections()
	defer a.CloseIdleConnections()
	for i := range 6 {
		client := fmt.Sprintf("X-Forwarded-For: 192.0.2.%d", i%2)
		want := http.StatusOK
		if i >= 4 {
			want = http.StatusTooManyRequests
		}
		if status, _ := getFrom(t, c, "http://x/", client); status != want {
			t.Errorf("request %d: %d, want %d", i, status, want)
		}
	}
	if status, _ := getFrom(t, c, "http://x/"); status != http.StatusOK { // on_unnamed: the proxy's own bucket
		t.Errorf("a proxy that names nobody: %d", status)
	}
	var info struct {
		Listen []struct{ Address, Mode string }
		Admin  string
	}
	_, body := getFrom(t, a, "http://localhost/v1/info")
	if err := json.Unmarshal([]byte(body), &info); err != nil || info.Listen[0].Address != p.listen || info.Listen[0].Mode != "0620" || info.Admin != p.admin {
		t.Errorf("/v1/info: %v\n%s", err, body)
	}
	if code, out, errs := command(t, nil, "top", "--admin", p.admin); code != 0 || !strings.Contains(out, "CLIENT") {
		t.Errorf("top: %d %s%s", code, out, errs)
	}
	// Whoever may open the socket may change things.
	if code, out, errs := command(t, nil, "ban", "198.51.100.0/24", "--admin", p.admin); code != 0 {
		t.Errorf("ban: %d %s%s", code, out, errs)
	}
	p.waitLog("client=192.0.2.1")
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if code, _, errs := command(t, nil, "top", "--admin", p.admin); code == 0 || !strings.Contains(errs, "nothing listens on unix:") {
		t.Errorf("top of nothing: %d %s", code, errs)
	}
}

// Without a trusted proxy all peers of a socket are this machine, the same client as
// one on loopback, whatever they send; and the usual warning says what is wrong.
func TestUnixPeerIsThisMachine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(testkit.ShortDir(t), "s")
	p := serveFile(t, fmt.Sprintf("listen: [unix:%s, 127.0.0.1:0]\nadmin: 127.0.0.1:0\n%s", path, perIP))
	c := socketClient(path)
	defer c.CloseIdleConnections()
	_, port, _ := strings.Cut(p.listen, ",")
	for i, want := range []int{200, 200, 429} {
		client, url := c, "http://x/"
		if i == 1 {
			client, url = http.DefaultClient, "http://"+port
		}
		if status, _ := getFrom(t, client, url, fmt.Sprintf("X-Forwarded-For: 192.0.2.%d", i)); status != want {
			t.Errorf("request %d: %d, want %d", i, status, want)
		}
	}
	p.waitLog("a proxy that is not trusted")
}

// What a process that was killed has left is replaced; a live server, a file, a link and
// a socket of another kind stay, and nothing starts.
func TestUnixPathIsTaken(t *testing.T) {
	t.Parallel()
	dir := testkit.ShortDir(t)
	path := filepath.Join(dir, "s")
	text := fmt.Sprintf("listen: unix:%s\nadmin: 127.0.0.1:0\n%s", path, perIP)
	first := serveFile(t, text)
	first.signal(syscall.SIGKILL)
	first.wait()
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
	live := serveFile(t, text)
	file := filepath.Join(dir, "file")
	link, dangling := filepath.Join(dir, "link"), filepath.Join(dir, "dangling")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{link: file, dangling: filepath.Join(dir, "none")} {
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
	}
	datagrams, err := net.ListenPacket("unixgram", filepath.Join(dir, "d"))
	if err != nil {
		t.Fatal(err)
	}
	defer datagrams.Close()
	for taken, want := range map[string]string{
		path: "another process listens there; stop that process", file: "exists and is not a socket; remove it", dir: "exists and is not a socket",
		link: "is a symbolic link", dangling: "is a symbolic link", filepath.Join(dir, "d"): "there is already a socket", filepath.Join(dir, "no", "s"): "make the directory first",
	} {
		before, _ := os.Lstat(taken)
		for _, setting := range []string{"listen", "admin"} {
			other := map[string]string{"listen": "admin", "admin": "listen"}[setting]
			code, _, errs := command(t, nil, "serve", "-c", writeFile(t, "c.yaml", fmt.Sprintf("%s: unix:%s\n%s: 127.0.0.1:0\n%s", setting, taken, other, perIP)))
			if code != 1 || !strings.Contains(errs, want) || !strings.Contains(errs, setting+" unix:"+taken) || strings.Contains(errs, "is serving") {
				t.Errorf("%s %s: code %d\n%s", setting, taken, code, errs)
			}
		}
		if after, _ := os.Lstat(taken); before != nil && (after == nil || !os.SameFile(before, after) || after.Mode() != before.Mode()) {
			t.Errorf("%s was touched: %v, %v", taken, before, after)
		}
	}
	c := socketClient(path)
	defer c.CloseIdleConnections()
	if status, _ := getFrom(t, c, "http://x/"); status != http.StatusOK {
		t.Errorf("the live server: %d", status)
	}
	// Somebody has put another socket there meanwhile: it is not ours to remove.
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	live.signal(syscall.SIGTERM)
	if code := live.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the socket of another process was removed: %v", err)
	}
}
