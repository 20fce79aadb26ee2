package suggest

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/config"
	"github.com/fastlimit/fastlimit/policy"
)

// smallLog is an hour of twelve visitors and a flood. Its last line is no line of a log.
func smallLog() string {
	var hits []hit
	for i := range 12 {
		for visit := range 3 {
			for range 1 + (i+visit)%5 {
				hits = append(hits, hit{time.Duration(visit)*20*time.Minute + time.Duration(i)*time.Second, clientAddr(i), "/"})
			}
		}
	}
	for i := range 600 {
		hits = append(hits, hit{10*time.Minute + time.Duration(i)*50*time.Millisecond, attackerAddr(9), "/login"})
	}
	return logOf(hits, wholeSeconds) + "tail\x1b[2J\n"
}

func smallReport(t *testing.T) *Report {
	t.Helper()
	return suggestFor(t, smallLog(), Config{Keys: []policy.RuleSpec{mustKey(t, "ip"), mustKey(t, "header:X-Api-Key"), mustKey(t, "ip", "/login")}})
}

// The text, to the letter: the figures were checked by hand. To change it, write what the
// test prints into the file, after reading it.
func TestText(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("testdata/small.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r := smallReport(t)
	var got strings.Builder
	if err := r.WriteText(&got); err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("got\n%s", got.String())
	}
	// All of it is a configuration file.
	cfg, err := config.Parse("small", []byte(got.String()), nil)
	if err != nil || len(cfg.Policy.Rules) != 2 {
		t.Errorf("%v", err)
	}
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], `rule "per-x-api-key" does not apply: the log has no header:X-Api-Key`) {
		t.Errorf("%q", r.Warnings)
	}
}

// Programs that read the JSON find the same numbers under these names.
func TestJSON(t *testing.T) {
	t.Parallel()
	b, err := json.Marshal(smallReport(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{"requests":705,"skipped":1,"late":0,"first":"2026-03-01T00:00:00Z","last":"2026-03-01T00:40:11Z","spare":"99.9%","whole_seconds":true,`,
		`"keys":[{"rule":"per-ip","key":"ip","requests":705,"clients":13,"sampled":1,"counted":705,"rates":[{"rate":"20/h",`,
		`"attackers":[{"key":"203.0.113.9","requests":600,"share":0.8`,
		`{"rule":"per-x-api-key","key":"header:X-Api-Key","requests":0,"clients":0,"sampled":1,"counted":0,"rates":[],"attackers":[]}`,
		`"paths":["/login"]`, `"config":"rules:\n  - name: per-ip\n`, `"skipped_lines":[{"line":706,`,
	} {
		if !strings.Contains(string(b), want) {
			t.Errorf("lacks %s:\n%s", want, b)
		}
	}
}

// The page has the rules and a chart with as many points as there are rates, and no text
// of a client is taken for HTML.
func TestHTML(t *testing.T) {
	t.Parallel()
	log := smallLog()
	for range 5000 {
		log += `203.0.113.9 - - [01/Mar/2026:00:10:00 +0000] "GET / HTTP/1.1" 200 5 "-" "<script>alert(1)</script>"` + "\n"
	}
	for i := range 12 {
		log += `192.0.2.1 - - [01/Mar/2026:00:10:00 +0000] "GET / HTTP/1.1" 200 5 "-" "agent ` + string(rune('a'+i)) + `"` + "\n"
	}
	r := suggestFor(t, log, Config{Keys: []policy.RuleSpec{mustKey(t, "ip"), mustKey(t, "header:User-Agent"), mustKey(t, "cookie:x")}})
	var page strings.Builder
	if err := r.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(strings.NewReader(page.String()))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	seen := map[string]int{}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok {
			seen[e.Name.Local]++
		}
	}
	rows := len(r.Keys[0].Rows) + len(r.Keys[1].Rows)
	if seen["circle"] != 5*rows+2 || seen["polyline"] != 10 || seen["svg"] != 2 || seen["script"] != 0 {
		t.Errorf("%v, want %d rows", seen, rows)
	}
	for _, want := range []string{"&lt;script&gt;alert(1)", "prefers-color-scheme: dark", "203.0.113.9", "name: per-user-agent", "no limit to suggest"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("lacks %q", want)
		}
	}
}

func TestNothingToSuggest(t *testing.T) {
	t.Parallel()
	r := suggestFor(t, "", Config{Keys: []policy.RuleSpec{mustKey(t, "ip")}})
	var text, page strings.Builder
	if err := errors.Join(r.WriteText(&text), r.WriteHTML(&page)); err != nil {
		t.Fatal(err)
	}
	if text.String() != "# 0 requests\n#\n# ip: 0 requests: no limit to suggest\n" || r.Config != "" || len(r.Warnings) != 1 {
		t.Errorf("%s%q", text.String(), r.Warnings)
	}
}

// The zero value of Config is refused, without a panic.
func TestZeroConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []Config{{}, {Spare: hundred}, {Keys: []policy.RuleSpec{mustKey(t, "ip")}}, {Keys: []policy.RuleSpec{mustKey(t, "ip")}, Spare: 101 * percent}} {
		if r, err := Run(t.Context(), nil, c); err == nil {
			t.Errorf("%+v: %+v", c, r)
		}
	}
}

// A single client is spared, whatever it does: it cannot stand out from a crowd.
func TestOneClient(t *testing.T) {
	t.Parallel()
	var hits []hit
	for i := range 5000 {
		hits = append(hits, hit{time.Duration(i) * 10 * time.Millisecond, clientAddr(1), "/"})
	}
	log := logOf(hits, fractions)
	r := suggestFor(t, log, Config{Keys: []policy.RuleSpec{mustKey(t, "ip")}, Spare: 50 * percent})
	r.check(t, log)
	if row := r.Keys[0].Rows[r.Keys[0].chosen]; row.ClientsShed != 0 || !strings.Contains(r.Config, "the only client needed") {
		t.Errorf("%s", r.Config)
	}
}

// A log with years of silence, or with a line of the year 1, is counted like any other.
func TestLongSilence(t *testing.T) {
	t.Parallel()
	log := `192.0.2.1 - - [01/Jan/0001:00:00:00 +0000] "GET / HTTP/1.1" 200 5` + "\n" + logOf([]hit{{0, netip.MustParseAddr("192.0.2.1"), "/"}, {0, clientAddr(1), "/"}}, wholeSeconds)
	r := suggestFor(t, log, Config{Keys: []policy.RuleSpec{mustKey(t, "ip")}})
	if row := r.Keys[0].Rows[0]; row.Rate != "1/h" || row.Max != 1 {
		t.Errorf("%+v", row)
	}
}
