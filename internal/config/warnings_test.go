package config

import (
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit"
)

func plan(t *testing.T, c *Config) *fastlimit.Plan {
	t.Helper()
	p, err := fastlimit.NewPlan(c.Limiter())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	inRule := func(s string) string { return "rules: [{name: a, " + s + "}]" }
	for _, tt := range []struct {
		text string
		want []string // words of each warning, in order
	}{
		{rule + "memory: 64MiB", []string{"note: rule a: escalate_at is 0, as burst 5 is below 10"}},
		{inRule("rate: 5/s, escalate_at: 0"), nil},
		{inRule("rate: 100/s"), nil},
		{inRule("rate: 100/s, strict: true"), []string{"note: rule a: strict checks every request"}},
		{inRule("rate: 10/d, burst: 10"), []string{
			"rule a: its memory carries ", "note: rule a: a full bucket takes 36h0m to drain, over the hour",
		}},
		{inRule("rate: 100/s, algorithm: fixed_window"), nil},
		{inRule("rate: 5/m, algorithm: fixed_window"), []string{"note: rule a: escalate_at is 0, as the limit of 5 is below 10"}},
		{inRule("rate: 100000/h, algorithm: fixed_window"), []string{"note: rule a: a window of 1h0m is longer than first-seen clients are remembered"}},
		{inRule("rate: 100/s, algorithm: sliding_window"), nil},
		{inRule("rate: 100/24m, algorithm: sliding_window"), nil},
		{inRule("rate: 100/25m, algorithm: sliding_window"), []string{"note: rule a: a sliding window of 25m is longer than first-seen clients are remembered, for which a period may have 24 minutes at most"}},
		{inRule("rate: 50/m, algorithm: sliding_log"), nil},
		{inRule("rate: 50/59m, algorithm: sliding_log"), []string{"rule a: its memory carries "}},
		{inRule("rate: 50/2h, algorithm: sliding_log"), []string{
			"rule a: its memory carries ", "note: rule a: a sliding log of 2h0m is longer than first-seen clients are remembered, less than an hour",
		}},
		{inRule("rate: 5/m, algorithm: sliding_log"), []string{"note: rule a: escalate_at is 0, as the limit of 5 is below 10"}},
		{inRule("rate: 100/s, match: {header: {X-Tier: free}, not: {path: /healthz, method: GET}}"), nil},
		{inRule("rate: 100/s, match: {not: {header: {x-in: '*'}, path: '/:id', method: GTE}}"), []string{
			"rule a: match.not.header: any client can send X-In, and is then not limited", "rule a: match.method: GTE is no method", "rule a: match.path",
		}},
		{inRule("rate: 100/s, match: {not: {header: {X-In: '*'}}}") + "\ntrusted_proxies: [10.0.0.0/8]", nil},
		{inRule("rate: 100/s") + "\nadmin: :9000", []string{"admin: :9000 can be reached"}},
		{inRule("rate: 100/s") + "\nadmin: 0.0.0.0:9000", []string{"admin: 0.0.0.0:9000 can be reached"}},
		{inRule("rate: 100/s") + "\nadmin: 192.0.2.1:9000", []string{"admin: 192.0.2.1:9000 can be reached"}},
		{inRule("rate: 100/s") + "\nadmin: localhost:9000", nil},
		{inRule("rate: 100/s") + "\nadmin: '[::1]:9000'", nil},
		{inRule("rate: 100/s, cost_from: {header: X-L}, rate_from: {header: x-l, max: 9/s}"), []string{
			"rule a: cost_from: X-L is read from trusted proxies only", "rule a: rate_from: X-L is read from trusted proxies only",
			"rule a: rate_from.max: 9/s is below rate, 100/s", "rule a: cost_from, rate_from: no text in X-L is both", "note: rule a: rate_from has every request checked exactly",
		}},
		{inRule("rate: 100/s, max_wait: 1s") + "\nwait: {per_key: 9, total: 8}", []string{"wait.per_key: 9 is above total, 8"}},
		{inRule("rate: 100/s, max_wait: 1s") + "\nwait: {per_key: 8, total: 8}", nil},
		{inRule("rate: 100/s") + "\nclient_ip_header: X-Real-IP", []string{"client_ip_header: X-Real-Ip is read from trusted proxies only, and there are none"}},
		{inRule("rate: 100/s") + "\nclient_ip_header: X-Real-IP\ntrusted_proxies: [10.0.0.0/8]", nil},
		{inRule("rate: 100/s") + "\noriginal_request: x-original", []string{"original_request: its headers are read from trusted"}},
		{inRule("rate: 100/s") + "\ntrusted_proxies: [0.0.0.0/0, 10.0.0.0/8]", []string{"trusted_proxies: 0.0.0.0/0 trusts everybody"}},
		{inRule("rate: 100/s") + "\nallow: [10.0.0.0/8, 192.0.2.1]\ndeny: [10.0.0.0/9, 192.0.2.1/32]", []string{"allow, deny: 192.0.2.1/32 is in both lists: deny wins"}},
	} {
		c := mustParse(t, tt.text)
		got := remarksOf(t, c)
		ok := len(got) == len(tt.want)
		for i := range tt.want {
			ok = ok && strings.HasPrefix(got[i], tt.want[i])
		}
		if !ok {
			t.Errorf("%s:\ngot  %q\nwant %q", tt.text, got, tt.want)
		}
	}
}

// remarksOf are the warnings and, behind "note: ", the notes.
func remarksOf(t *testing.T, c *Config) []string {
	t.Helper()
	p := plan(t, c)
	all := Warnings(c, p)
	for _, n := range Notes(c, p) {
		all = append(all, "note: "+n)
	}
	return all
}

func TestAtOnce(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string]uint64{
		"rate: 100/s, burst: 200":                    301, // (1+0.5)·200 + 1
		"rate: 100/s, burst: 200, escalate_at: 0":    201,
		"rate: 100/s, burst: 200, escalate_at: 1":    401,
		"rate: 100/s, burst: 15":                     23, // 22.5 + 1, whole units
		"rate: 5/s":                                  6,  // θ = 0
		"rate: 100/s, burst: 200, strict: true":      200,
		"rate: 1/d, burst: 100":                      150, // no filter, so no first-seen request
		"rate: 1/s, burst: 1000000000000":            1500000000000,
		"rate: 100/s, algorithm: token_bucket":       151,
		"rate: 100/s, algorithm: fixed_window":       151,
		"rate: 100/s, algorithm: sliding_window":     151,
		"rate: 100/s, algorithm: sliding_log":        151,
		"rate: 50/2h, algorithm: sliding_log":        75,              // no filter
		"rate: 1000000000/s, burst: 100000000000001": 150000000002001, // the clock rounds to µs
	} {
		c := mustParse(t, "rules: [{name: a, "+settings+"}]")
		if got := plan(t, c).Rules[0].MaxBurst(); got != want {
			t.Errorf("%s: got %d, want %d", settings, got, want)
		}
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "rules: [{name: per-ip, rate: 100/s, burst: 200}, {name: a-long-name, rate: 5/h, burst: 3, strict: true, mode: shadow}]")
	p := plan(t, c)
	text := Describe(c, p)
	for _, want := range []string{
		"memory 64 MiB, of which ", "first-seen filter ", " clients for 3s\n",
		"half of them are in use,\nand the chance that a suspect finds none free is below 1 in 10^",
		"301 at once, then 100/s\n", "3 at once, then 5/h\n", "shadow", "none",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	lines := strings.Split(text, "\n")
	table := lines[len(lines)-4 : len(lines)-1]
	for _, column := range []string{"limit", "carries", "a client gets at most"} {
		at := strings.Index(table[0], column)
		for _, row := range table[1:] {
			if at <= 0 || row[at-1] != ' ' || row[at] == ' ' {
				t.Errorf("column %q is not aligned in\n%s", column, text)
			}
		}
	}
	alone := mustParse(t, "rules: [{name: a, rate: 5/h, strict: true}]")
	if text := Describe(alone, plan(t, alone)); !strings.Contains(text, "first-seen filter: none") {
		t.Error(text)
	}
}

func TestNumbersForPeople(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 64 << 20: "64 MiB", 1 << 40: "1 TiB", 1 << 50: "1024 TiB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %s, want %s", n, got, want)
		}
	}
	for v, want := range map[float64]string{0.05: "0.1 requests/s", 0.04: "3.5k requests/day", 1e-5: "0.9 requests/day", 1500: "1.5k requests/s"} {
		if got := perSecond(v); got != want {
			t.Errorf("perSecond(%v) = %s, want %s", v, got, want)
		}
	}
	for v, want := range map[float64]string{0.5: "0.5", 21: "21", 1500: "1.5k", 2e6: "2M", 3e12: "3000G"} {
		if got := count(v); got != want {
			t.Errorf("count(%v) = %s, want %s", v, got, want)
		}
	}
}
