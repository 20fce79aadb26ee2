package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// freePort is a port for servers that cannot pick one.
func freePort(t *testing.T) string {
	t.Helper()
	_, port, _ := net.SplitHostPort(testkit.FreeAddr(t))
	return port
}

// front runs a server that stands in front, until the test ends, and waits for its ports.
func front(t *testing.T, cmd *exec.Cmd, ports ...string) {
	t.Helper()
	log := writeFile(t, "log", "")
	f, err := os.OpenFile(log, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended does not matter
		close(ended)
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended }) // it must have no children
	for _, port := range ports {
		for c, err := net.Dial("tcp", "127.0.0.1:"+port); ; c, err = net.Dial("tcp", "127.0.0.1:"+port) {
			if err == nil {
				c.Close()
				break
			}
			select {
			case <-ended:
				text, _ := os.ReadFile(log)
				t.Fatalf("%v ended: %v\n%s", cmd.Args, err, text)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
}

// A real HAProxy names its clients by PROXY headers of both versions, with checksum and
// authority, to a port and to a socket, with health checks: each client has its limit.
func TestHAProxySendsHeaders(t *testing.T) {
	t.Parallel()
	path := filepath.Join(testkit.ShortDir(t), "s")
	p := serveFile(t, fmt.Sprintf(`listen: [{address: "127.0.0.1:0", proxy_protocol: [127.0.0.1]}, {address: "unix:%s", proxy_protocol: [127.0.0.1]}]
admin: 127.0.0.1:0
rules: [{name: per-ip, key: ip, rate: 1/h, burst: 2, strict: true, match: {not: {path: /health}}}]
`, path))
	port, _, _ := strings.Cut(p.listen, ",")
	var ports []string
	var text strings.Builder
	text.WriteString("defaults\n timeout client 10s\n timeout server 10s\n timeout connect 10s\n")
	for i, server := range []string{
		"mode tcp\n server s " + port + " source 127.0.0.1 send-proxy check check-send-proxy inter 100ms",
		"mode tcp\n server s " + port + " source 127.0.0.1 send-proxy-v2 proxy-v2-options crc32c,authority check check-send-proxy inter 100ms",
		"mode http\n option httpchk GET /health\n server s unix@" + path + " send-proxy-v2 proxy-v2-options crc32c check check-send-proxy inter 100ms",
	} {
		ports = append(ports, freePort(t))
		fmt.Fprintf(&text, "listen l%d\n bind 127.0.0.1:%s\n %s\n", i, ports[i], server)
	}
	front(t, exec.Command("haproxy", "-db", "-f", writeFile(t, "haproxy.cfg", text.String())), ports...)
	for i, port := range ports {
		for j, want := range []int{200, 200, 429} {
			for _, last := range []string{"5", "6"} {
				client := clientFrom(t, fmt.Sprintf("127.0.%d.%s", i+1, last))
				resp, _ := get(t, client, "http://127.0.0.1:"+port+"/")
				if resp.StatusCode != want {
					t.Errorf("listener %d, client %s, request %d: %d, want %d", i, last, j, resp.StatusCode, want)
				}
			}
		}
	}
	p.waitLog("client=127.0.3.6")
	for _, why := range []string{"missing", "malformed", "address", "checksum", "timeout", "untrusted"} {
		if n := p.metric(t, `fastlimit_proxy_protocol_errors_total{reason="`+why+`"}`); n != 0 {
			t.Errorf("%v errors of kind %s", n, why)
		}
	}
	_, body := get(t, http.DefaultClient, "http://"+p.admin+"/v1/info")
	if !strings.Contains(body, `"proxy_protocol": [`) || !strings.Contains(body, `"127.0.0.1/32"`) {
		t.Errorf("/v1/info: %s", body)
	}
}

// Behind a real nginx on a socket, the header that it writes names the client, and what
// a client writes into it does not.
func TestNginxOnASocket(t *testing.T) {
	t.Parallel()
	dir := testkit.ShortDir(t)
	path := filepath.Join(dir, "s")
	p := serveFile(t, fmt.Sprintf("listen: unix:%s\nadmin: 127.0.0.1:0\ntrusted_proxies: [127.0.0.1]\nclient_ip_header: X-Real-IP\n%s", path, perIP))
	port := freePort(t)
	conf := writeFile(t, "nginx.conf", fmt.Sprintf(`daemon off; user root; master_process off; pid %[1]s/pid; error_log stderr; events {}
http { access_log off; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/g;
server { listen 127.0.0.1:%[2]s; location / { proxy_pass http://unix:%[3]s:; proxy_set_header X-Real-IP $remote_addr; } } }`, dir, port, path))
	front(t, exec.Command("nginx", "-p", dir, "-c", conf), port)
	for j, want := range []int{200, 200, 429} {
		for _, addr := range []string{"127.0.0.5", "127.0.0.6"} {
			if status, _ := getFrom(t, clientFrom(t, addr), "http://127.0.0.1:"+port+"/", fmt.Sprintf("X-Real-IP: 192.0.2.%d", j)); status != want {
				t.Errorf("client %s, request %d: %d, want %d", addr, j, status, want)
			}
		}
	}
	p.waitLog("client=127.0.0.6")
}

// Spoofed headers of a peer that is not trusted name nobody, in the log and in metrics.
func TestSpoofedProxyHeader(t *testing.T) {
	t.Parallel()
	p := serveFile(t, "listen: [{address: \"127.0.0.1:0\", proxy_protocol: [127.0.0.2]}]\nadmin: 127.0.0.1:0\nbad_requests: ignore\n"+perIP)
	sent := 0
	spoof := func() {
		c, err := net.Dial("tcp", p.listen)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, "PROXY TCP4 192.0.2.1 10.0.0.1 1 80\r\n"+request)
		sent++
		reply := make([]byte, 12)
		if _, err := io.ReadFull(c, reply); err != nil || string(reply) != "HTTP/1.1 400" {
			t.Fatalf("%q %v", reply, err)
		}
	}
	const line = `"PROXY header refused" reason=untrusted peer=127.0.0.1`
	logged := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return strings.Contains(p.log.String(), line)
	}
	for end := time.Now().Add(hang); !logged(); time.Sleep(50 * time.Millisecond) { // one a second is logged
		if spoof(); time.Now().After(end) {
			t.Fatal("not logged")
		}
	}
	if n := p.metric(t, `fastlimit_proxy_protocol_errors_total{reason="untrusted"}`); int(n) != sent {
		t.Errorf("%v of %d are counted", n, sent)
	}
	if resp, _ := get(t, http.DefaultClient, "http://"+p.listen+"/"); resp.StatusCode != 200 {
		t.Errorf("the same peer without a header: %d", resp.StatusCode)
	}
}
