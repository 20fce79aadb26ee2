package config

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

func TestOverlap(t *testing.T) {
	t.Parallel()
	names := resolver(func(host string) (netip.Addr, bool) {
		return netip.MustParseAddr("10.0.0.1"), host == "edge.example"
	})
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"127.0.0.1:80", "127.0.0.1:80", true},
		{"127.0.0.1:80", "127.0.0.1:81", false},
		{"127.0.0.1:0", "127.0.0.1:0", false},
		{"127.0.0.1:80", "127.0.0.2:80", false},
		{"localhost:80", "127.0.0.1:80", true},
		{"localhost:80", "[::1]:80", false}, // a listener takes the first IPv4 address
		{":80", "127.0.0.1:80", true},
		{":80", "[::1]:80", true},
		{"[::]:80", "10.0.0.1:80", true},
		{"[::]:80", "0.0.0.0:80", true},
		{"0.0.0.0:80", "localhost:80", true},
		{"0.0.0.0:80", "[::1]:80", false},
		{"edge.example:80", "10.0.0.1:80", true},
		{"edge.example:80", "0.0.0.0:80", true},
		{"edge.example:80", "10.0.0.2:80", false},
		{"other.example:80", "10.0.0.1:80", false}, // nobody knows it
		{"other.example:80", "other.example:80", true},
	} {
		if got := overlap(tt.a, tt.b, names); got != tt.want {
			t.Errorf("%s and %s: %v", tt.a, tt.b, got)
		}
		if got := overlap(tt.b, tt.a, names); got != tt.want {
			t.Errorf("%s and %s: %v", tt.b, tt.a, got)
		}
	}
	if overlap("edge.example:80", "10.0.0.1:80", nil) {
		t.Error("a name that nobody looked up")
	}
}

// What the machine lacks is an error at its place in the file.
func TestMachine(t *testing.T) {
	t.Parallel()
	m := machine{memory: 1 << 30, resolve: func(string) (netip.Addr, bool) { return netip.MustParseAddr("192.0.2.1"), true }}
	for text, want := range map[string]string{
		"memory: 2GiB\n" + rule:                                           "f.yaml:1:9: memory: 2GiB is more than this machine has, or than this process may use; want at most 1 GiB",
		"memory: 1GiB\n" + rule:                                           "",
		"listen: 'a.example:80'\nadmin: 192.0.2.1:80\n" + rule:            "f.yaml:2:8: admin: 192.0.2.1:80 is taken by the listener a.example:80",
		"listen: ['a.example:80', 'b.example:80']\n" + rule:               "f.yaml:1:26: listen[1]: b.example:80 is taken by the listener a.example:80",
		"listen: ['a.example:80', '0.0.0.0:80']\n" + rule:                 "f.yaml:1:26: listen[1]: 0.0.0.0:80 is taken by the listener a.example:80",
		"listen: ['0.0.0.0:80', '[::1]:80', '[2001:db8::1]:80']\n" + rule: "",
	} {
		_, err := parse("f.yaml", []byte(text), noEnv, m)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	const v2, v1 = "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"
	const info = "MemTotal:       16384 kB\nMemFree:  1 kB\n"
	for _, tt := range []struct {
		files map[string]string
		want  int64
	}{
		{nil, 0},
		{map[string]string{"/proc/meminfo": info}, 16 << 20},
		{map[string]string{"/proc/meminfo": info, v2: "1048576\n"}, 1 << 20},
		{map[string]string{"/proc/meminfo": info, v2: "max\n"}, 16 << 20},
		{map[string]string{"/proc/meminfo": info, v1: "9223372036854771712\n"}, 16 << 20},
		{map[string]string{"/proc/meminfo": "?", v1: "1000\n"}, 1000},
	} {
		got := memoryLimit(func(path string) ([]byte, error) {
			if s, ok := tt.files[path]; ok {
				return []byte(s), nil
			}
			return nil, os.ErrNotExist
		})
		if got != tt.want {
			t.Errorf("%v: %d, want %d", tt.files, got, tt.want)
		}
	}
}

// The default never keeps a file from being accepted, and takes no more than a
// sixteenth of memory.
func TestDefaultTopTalkers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		memory int64
		rules  int
		want   int
	}{
		{64 << 20, 1, 1024},
		{64 << 20, 42, 860},
		{64 << 20, 100, 360},
		{64 << 20, fastlimit.MaxRules, 0}, // all of it is for the limits
		{1 << 20, 1, 0},
		{1<<20 + 100<<10, 1, 620},
		{2 << 20, 1, 1024},
	} {
		if got := defaultTalkers(tt.memory, tt.rules); got != tt.want {
			t.Errorf("memory %d, %d rules: %d, want %d", tt.memory, tt.rules, got, tt.want)
		}
		c := fastlimit.Config{Rules: probes(tt.rules), TopTalkers: tt.want, Memory: tt.memory}
		if _, err := fastlimit.NewPlan(c); err != nil {
			t.Error(err)
		}
	}
	if c := mustParse(t, "top_talkers: 0\n"+rule); c.Limiter().TopTalkers != 0 {
		t.Error("0 does not turn it off")
	}
	if c := mustParse(t, "memory: 1MiB\n"+rule); c.Limiter().TopTalkers != 0 {
		t.Errorf("%d in the least memory", c.Limiter().TopTalkers)
	}
	_, err := Parse("f.yaml", []byte("heavy_hitters: 5\ncluster: {heavy_hitters: 5}\n"), noEnv)
	for _, want := range []string{"f.yaml:1:1: heavy_hitters: is now called top_talkers; write top_talkers", "f.yaml:2:11: cluster.heavy_hitters: is now called top_talkers"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
}

// probes are good rules.
func probes(n int) []fastlimit.RuleConfig {
	all := make([]fastlimit.RuleConfig, n)
	for i := range all {
		all[i] = fastlimit.RuleConfig{Name: fmt.Sprint(i), Rate: fastlimit.Rate{N: 1, Per: time.Second}}
	}
	return all
}

// A file that is no regular one is read, and never waited for without end.
func TestLoadPipes(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(fifo, noEnv)
	if want := fifo + ": is a pipe that nothing writes to; start the writer first, or name a regular file"; err == nil || err.Error() != want {
		t.Errorf("a FIFO without a writer: %v", err)
	}
	// A writer that is slow: the pipe is open before it is read.
	w, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString(rule); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { w.Close() })
	if c, err := Load(fifo, noEnv); err != nil || c.Policy.Rules[0].Limit.Name != "a" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := Load(os.DevNull, noEnv); err == nil || !strings.Contains(err.Error(), "the file is empty") {
		t.Error(err)
	}
}

func TestLoadFrom(t *testing.T) {
	t.Parallel()
	if c, err := LoadFrom("<stdin>", strings.NewReader(rule), noEnv); err != nil || len(c.Policy.Rules) != 1 {
		t.Errorf("%+v, %v", c, err)
	}
	_, err := LoadFrom("<stdin>", strings.NewReader("x: 1\n"+rule), noEnv)
	if err == nil || !strings.HasPrefix(err.Error(), "<stdin>:1:1: x: unknown setting") {
		t.Error(err)
	}
	var all Errors
	_, err = LoadFrom("<stdin>", failing{}, noEnv)
	if !errors.As(err, &all) || err.Error() != "<stdin>: cannot be read: out of paper; check the path" {
		t.Error(err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("out of paper") }

// The files that serving would read are read, and what is wrong with them has
// its place.
func TestCertificates(t *testing.T) {
	t.Parallel()
	a, b := redistest.NewCertificate(t, time.Now().Add(time.Hour)), redistest.NewCertificate(t, time.Now().Add(time.Hour))
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for settings, want := range map[string]string{
		"ca_file: " + a.CertFile + ", cert_file: " + a.CertFile + ", key_file: " + a.KeyFile: "",
		"ca_file: " + empty:                                     "1:37: redis.ca_file: \"" + empty + "\" holds no certificate; name a file in PEM format",
		"ca_file: " + a.KeyFile:                                 "holds no certificate",
		"ca_file: /does/not/exist":                              `redis.ca_file: "/does/not/exist" no such file; name a file that can be read`,
		"cert_file: " + a.CertFile + ", key_file: " + b.KeyFile: "redis.cert_file: cannot be used with key_file: private key does not match public key",
		"cert_file: " + a.CertFile:                              "redis.cert_file: has no key_file beside it",
		"key_file: " + a.KeyFile:                                "redis.key_file: has no cert_file beside it",
	} {
		_, err := parse("f.yaml", []byte(withRedis(`url: "rediss://h", `+settings)), noEnv, thisMachine())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s:\ngot  %v\nwant %s", settings, err, want)
		}
	}
}
