package recipes_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// front is a web server that asks fastlimit as its recipe says.
type front struct {
	name     string
	settings string   // what the recipe wants fastlimit to have
	away     []int    // the statuses for everybody while fastlimit is away, closed form
	refuses  []string // odd requests that the server itself refuses, in a way of its own

	// replayed: a stand-in asks as the server documents it. closedOnly: the server
	// cannot fail open, and waits longer for an answer than a test may.
	replayed, closedOnly bool

	// proxied: it forwards to fastlimit instead of asking it.
	proxied bool

	// spools: it forwards a small upload when it has all of it.
	spools bool

	// hangs: it cannot tell a fastlimit that is stopped from a slow one.
	hangs bool

	// Of a header that is sent twice, fastlimit and the app may see different values.
	sharedKeys bool

	// start returns the address. The closed form admits nobody while fastlimit
	// is away; byKey turns on what a rule with key header:X-Api-Key needs.
	start func(t *testing.T, o options) (addr string)
}

type options struct {
	limiter, admin, app string // addresses, see front.up
	closed              bool
	byKey               bool // of nginx, HAProxy and Apache; the others pass all fields

	// inTime has the server wait for as long as its recipe says. Without it, it waits
	// until only a bug makes it, as on a busy machine fastlimit may be late.
	inTime bool
}

// patience is how long servers wait without options.inTime, in milliseconds.
const patience = "20000"

// trusted has fastlimit believe the front.
const trusted = "trusted_proxies: [127.0.0.1/32]\n"

var fronts = slices.Concat(asking, proxied)

// asking are the fronts that ask fastlimit about each request.
var asking = []front{
	{
		name:     "nginx",
		settings: "listen: [{address: \"127.0.0.1:0\", deny_status: 403}]\noriginal_request: x-original\n" + trusted,
		away:     []int{503},
		start:    startNginx,
	},
	{
		name:     "caddy",
		settings: "listen: 127.0.0.1:0\noriginal_request: x-forwarded\n" + trusted,
		away:     []int{502, 504},
		start:    startCaddy,
	},
	{
		name:     "haproxy",
		settings: "listen: 127.0.0.1:0\noriginal_request: x-original\n" + trusted,
		away:     []int{503},
		refuses:  []string{"absolute"}, // an authority other than Host
		start:    startHAProxy,
	},
	{
		name:     "apache",
		settings: "listen: 127.0.0.1:0\noriginal_request: x-original\n" + trusted,
		away:     []int{503},
		refuses:  []string{"unknown encoding"}, // with 500
		start:    startApache,
	},
	{
		name:       "traefik",
		settings:   "listen: 127.0.0.1:0\noriginal_request: x-forwarded\n" + trusted,
		away:       []int{500},
		replayed:   true,
		closedOnly: true,
		start:      startTraefik,
	},
	{
		name:       "apisix",
		settings:   "listen: 127.0.0.1:0\noriginal_request: x-forwarded\n" + trusted,
		away:       []int{503},
		replayed:   true,
		sharedKeys: true,
		start:      startAPISIX,
	},
	{
		name:       "envoy",
		settings:   "listen: 127.0.0.1:0\nclient_ip_header: X-Real-IP\n" + trusted,
		away:       []int{503},
		refuses:    []string{"HTTP/1.0"}, // unless it is told to accept it
		replayed:   true,
		sharedKeys: true,
		start:      startEnvoy,
	},
}

// up starts the app, fastlimit with some rules, and the front at addr.
func (f *front) up(t *testing.T, rules string, o options) (a *app, l *limiter, addr string) {
	t.Helper()
	a = startApp(t)
	o.app = a.Listener.Addr().String()
	l = startLimiter(t, strings.ReplaceAll(f.settings, "127.0.0.1:3000", o.app)+rules)
	o.limiter, o.admin = l.listen, l.admin
	return a, l, f.start(t, o)
}

// recipe reads a recipe with its addresses and its timeout replaced.
func recipe(t *testing.T, file, addr string, o *options, edits ...string) string {
	t.Helper()
	text := edited(t, file, edits...)
	text = strings.ReplaceAll(text, "127.0.0.1:3000", o.app)
	text = strings.ReplaceAll(text, "127.0.0.1:8080", o.limiter) // if not in another file
	if !o.inTime {
		text = strings.ReplaceAll(text, "100ms", patience+"ms")
	}
	if strings.Contains(text, "127.0.0.1:8000") {
		return strings.ReplaceAll(text, "127.0.0.1:8000", addr)
	}
	return strings.ReplaceAll(text, ":8000", addr[strings.LastIndexByte(addr, ':'):])
}

// edited reads a file of this directory with pairs of texts replaced. Every edit
// must apply.
func edited(t *testing.T, file string, edits ...string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(text, edits[i]) {
			t.Fatalf("%s does not contain %q", file, edits[i])
		}
		text = strings.ReplaceAll(text, edits[i], edits[i+1])
	}
	return text
}

func startNginx(t *testing.T, o options) string {
	t.Helper()
	var edits []string
	if o.closed {
		edits = append(edits, "500 502 503 504 = @fastlimit_admit", "500 502 503 504 = @fastlimit_refuse")
	}
	if o.byKey {
		edits = append(edits, "# proxy_set_header X-Api-Key", "proxy_set_header X-Api-Key")
	}
	return runNginx(t, "nginx.conf", &o, edits)
}

func runNginx(t *testing.T, file string, o *options, edits []string) string {
	t.Helper()
	program, dir := find(t, "nginx", "nginx-light"), t.TempDir()
	return runFront(t, func(addr string) *exec.Cmd {
		text := fmt.Sprintf("daemon off;\nmaster_process off;\npid %[1]s/pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n"+
			"client_body_temp_path %[1]s/body;\nproxy_temp_path %[1]s/proxy;\n%[2]s}\n", dir, recipe(t, file, addr, o, edits...))
		return exec.Command(program, "-p", dir, "-c", write(t, dir, text))
	})
}

func startCaddy(t *testing.T, o options) string {
	t.Helper()
	return runCaddy(t, "Caddyfile", &o, "{\n\tservers", "{\n\tadmin off\n\tservers", "http://:8000 {", "http://:8000 {\n\tbind 127.0.0.1")
}

func runCaddy(t *testing.T, file string, o *options, edits ...string) string {
	t.Helper()
	program, dir := find(t, "caddy", "caddy"), t.TempDir()
	return runFront(t, func(addr string) *exec.Cmd {
		text := recipe(t, file, addr, o, edits...)
		if o.closed {
			open, _, ok := strings.Cut(text, "\n\t# Fail open")
			if !ok {
				t.Fatalf("%s: no part that fails open", file)
			}
			text = open + "}\n"
		}
		cmd := exec.Command(program, "run", "--config", write(t, dir, text), "--adapter", "caddyfile")
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
		return cmd
	})
}

func startHAProxy(t *testing.T, o options) string {
	t.Helper()
	var edits, luaEdits []string
	if o.closed {
		edits = append(edits, "# http-request return status 503", "http-request return status 503")
	}
	if o.byKey {
		luaEdits = append(luaEdits, "passed = {}", `passed = {"x-api-key"}`)
	}
	program, dir := find(t, "haproxy", "haproxy"), t.TempDir()
	lua := writeAs(t, dir, "haproxy.lua", edited(t, "haproxy.lua", luaEdits...))
	return runFront(t, func(addr string) *exec.Cmd {
		text := recipe(t, "haproxy.cfg", addr, &o, slices.Concat(edits, []string{"per-thread haproxy.lua", "per-thread " + lua})...)
		return exec.Command(program, "-db", "-f", write(t, dir, text))
	})
}

// write returns the path of a new file.
func write(t *testing.T, dir, text string) string {
	t.Helper()
	return writeAs(t, dir, "conf", text)
}

func writeAs(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// find is the path of a program, which Debian keeps where only root looks.
func find(t *testing.T, name, debian string) string {
	t.Helper()
	for _, path := range []string{name, "/usr/sbin/" + name} {
		if path, err := exec.LookPath(path); err == nil {
			return path
		}
	}
	t.Fatalf("this test needs %s: apt-get install %s", name, debian)
	return ""
}
