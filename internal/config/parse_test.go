package config

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket/redisstore"
	"github.com/fastlimit/fastlimit/internal/lists"
	"github.com/fastlimit/fastlimit/internal/mistake"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server"
	"github.com/fastlimit/fastlimit/sync/gossip"
)

var update = flag.Bool("update", false, "write the .golden files anew")

// noEnv knows no variables.
func noEnv(string) (string, bool) { return "", false }

func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse("f.yaml", []byte(text), noEnv)
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return c
}

// listenersOf shows addresses and status codes. It leaves out other fields of a listener,
// so that a new one does not touch the tests of these two.
func listenersOf(c *Config) string {
	var all []string
	for _, l := range c.Server.Listeners {
		all = append(all, fmt.Sprintf("{%s %d}", l.Address, l.DenyStatus))
	}
	return "[" + strings.Join(all, " ") + "]"
}

// TestGolden compares the whole report on files that hold one of every
// mistake. Line and column of each were checked by eye.
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"everything", "contract", "network"} {
		path := filepath.Join("testdata", name+".yaml")
		_, err := Load(path, noEnv)
		if err == nil {
			t.Errorf("%s: no error", path)
			continue
		}
		got := []byte(filepath.ToSlash(err.Error()) + "\n")
		golden := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s:\n--- got\n%s--- want\n%s", path, got, want)
		}
	}
}

// TestNumbersWithoutEachOther: a broken number does not hide what is wrong
// with the others, and is not blamed on them.
func TestNumbersWithoutEachOther(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string][]string{
		"burst: 5, cost: 6":                             {"rate: missing", "cost: cost 6 is above burst 5"},
		"rate: 5, burst: 5, cost: 6":                    {"rate: rate", "cost: cost 6 is above burst 5"},
		"rate: 5, cost: 6":                              {"rate: rate"},
		"rate: 5, burst: 1152921504606846976":           {"rate: rate"},
		"rate: 5, burst: 1152921504606846977, cost: 9":  {"rate: rate", "burst: burst 1152921504606846977"},
		"rate: 5/s, burst: x, cost: 6":                  {"burst: "},
		"rate: 5/s, burst: 4, cost: 0, escalate_at: 2":  {"cost: 0 is too small", "escalate_at: "},
		"rate: 65533/366d, cost: 65534":                 {"rate: burst 65533 at"},
		"rate: 5, burst: 0, cost: -1, escalate_at: two": {"rate: ", "burst: ", "cost: ", "escalate_at: "},
	} {
		_, err := Parse("f.yaml", []byte("rules: [{name: a, "+settings+"}]"), noEnv)
		var all mistake.Errors
		if !errors.As(err, &all) || len(all) != len(want) {
			t.Errorf("%s: got\n%v\nwant %q", settings, err, want)
			continue
		}
		for i, e := range all {
			if !strings.Contains(e.Error(), "rules[0]."+want[i]) {
				t.Errorf("%s: got %v, want %s", settings, e, want[i])
			}
		}
	}
}

// TestGoldenPlaces checks the places of a report against the file: at each of
// them stands the setting, its value, or the mapping that lacks it.
func TestGoldenPlaces(t *testing.T) {
	t.Parallel()
	path := filepath.Join("testdata", "everything.yaml")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(data), "\n")
	_, err = Parse(path, data, noEnv)
	var all mistake.Errors
	if !errors.As(err, &all) || len(all) < 60 {
		t.Fatalf("%d errors, want 60 and more", len(all))
	}
	last := &mistake.Error{}
	for _, e := range all {
		if e.Line < last.Line || e.Line == last.Line && e.Column < last.Column {
			t.Errorf("%v comes after %v", e, last)
		}
		last = e
		line := []rune(lines[e.Line-1])
		if e.Column < 1 || e.Column > len(line) {
			t.Errorf("%v: line %d has %d columns", e, e.Line, len(line))
			continue
		}
		before, at := line[:e.Column-1], line[e.Column-1]
		ok := at != ' ' && (len(before) == 0 || strings.ContainsRune(" [{", before[len(before)-1]))
		if !ok {
			t.Errorf("%v: column %d of %q is not where a value begins", e, e.Column, string(line))
		}
	}
}

// TestContract parses every setting of the contract.
func TestContract(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("testdata", "contract.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for line := range strings.Lines(string(data)) {
		text.WriteString(strings.Replace(line, `"..."`, "0123456789abcdef", 1)) // a secret
	}
	theta := 0.5
	want := &Config{
		Server: server.Config{
			Listeners: []server.Listener{{Address: "127.0.0.1:8080", DenyStatus: 429}},
			Admin:     "127.0.0.1:8081",
			Connections: server.Connections{
				Max: 16384, MaxPerClient: 1024, MaxStreamsPerClient: 1024, HeaderBytes: 32 << 10, BodyBytes: 64 << 10,
				HeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, WriteTimeout: 10 * time.Second,
			},
			Drain:      server.Drain{Delay: time.Second, Timeout: 10 * time.Second},
			DenialLogs: 100,
			Upstream: &server.Upstream{
				URLs: []string{"http://127.0.0.1:3000"}, ConnectTimeout: time.Second, ResponseTimeout: 30 * time.Second, IdleTimeout: time.Minute,
				MaxConnections: 1024, MaxQueue: 1024, QueueTimeout: time.Second,
			},
		},
		DenyStatus: 429,
		Limits:     fastlimit.Config{Memory: 64 << 20, Wait: fastlimit.WaitLimits{PerKey: 10, Total: 10_000}}, // TopTalkers is that of the cluster
		Redis:      &redisstore.Config{URL: "redis://127.0.0.1:6379/0", Timeout: 5 * time.Millisecond},
		Cluster: &Cluster{TopTalkers: 8192, Config: gossip.Config{
			Name: "edge", Bind: "127.0.0.1:7946", Join: []string{"127.0.0.1:7947"}, Secret: "0123456789abcdef",
			Interval: 100 * time.Millisecond, MaxBytes: 16 << 10, MaxNodes: 32,
		}},
		Policy: policy.Settings{
			Rules: []policy.RuleSpec{{
				Limit: fastlimit.RuleConfig{
					Name: "per-ip", Rate: fastlimit.Rate{N: 100, Per: time.Second}, Burst: 200, Cost: 1,
					EscalateAt: &theta, IPv4Prefix: 32, IPv6Prefix: 64,
				},
				Match: policy.Match{Hosts: []string{"*.example.com"}, Paths: []string{"/api/*"}, Methods: []string{"GET", "POST"}},
				Key:   []policy.KeyPart{{Kind: policy.KeyIP}},
			}},
			Allow:          []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
			Deny:           []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
			TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
			ClientIPHeader: "X-Forwarded-For",
		},
	}
	want.Lists = lists.Config{Allow: want.Policy.Allow, Deny: want.Policy.Deny}
	got := mustParse(t, text.String())
	want.File, want.places = got.File, got.places
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

func TestDefault(t *testing.T) {
	t.Parallel()
	c := Default()
	written := mustParse(t, "rules: [{name: per-ip, key: ip, rate: 100/s, burst: 200}]")
	written.File, written.places = c.File, c.places
	if !reflect.DeepEqual(c, written) {
		t.Errorf("Default() is\n%+v\na file without other settings\n%+v", c, written)
	}
	if _, err := fastlimit.New(c.Limiter()); err != nil {
		t.Error(err)
	}
	if listenersOf(c) != "[{127.0.0.1:8080 429}]" || c.Server.Admin != "127.0.0.1:8081" {
		t.Errorf("%+v", c)
	}
	if got := c.Limiter().Rules[0]; got.Name != "per-ip" || got.Rate.String() != "100/s" || got.Burst != 200 {
		t.Errorf("%+v", got)
	}
}

// A file that parses is one that the limiter and the policy accept.
func checkAccepted(t *testing.T, c *Config) {
	t.Helper()
	lc := c.Limiter()
	if _, err := fastlimit.NewPlan(lc); err != nil {
		t.Errorf("accepted here, refused by the limiter: %v", err)
		return
	}
	if len(lc.Rules) > 8 {
		return // taking the memory takes time
	}
	lc.Memory, lc.Shared = 4<<20, false // there is no store to open
	lim, err := fastlimit.New(lc)
	if err != nil {
		t.Errorf("accepted here, refused by the limiter: %v", err)
		return
	}
	if _, err := policy.New(lim, c.Policy); err != nil {
		t.Errorf("accepted here, refused by the policy: %v", err)
	}
	if _, err := policy.NewIdentity(c.Policy); err != nil {
		t.Errorf("accepted here, refused by the policy: %v", err)
	}
}
