package top

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fastlimit/fastlimit/internal/screen"
)

var update = flag.Bool("update", false, "write the golden screens anew")

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// flood is what a node tells in one.
func flood() *Document {
	return &Document{
		Clients: []Client{
			{Rule: "per-ip", Key: "192.0.2.7", Parts: []string{"192.0.2.7"}, Rate: 26_612, Error: 311, Denied: 26_600, Limit: new(20.0), Share: new(1330.6), Mode: "enforce", BannedBy: "rule", Banned: 13, Nodes: []string{"a", "b"}},
			{Rule: "per-ip", Key: "198.51.100.0/24", Parts: []string{"198.51.100.0/24"}, Rate: 650, Denied: 0, Limit: new(1000.0), Share: new(0.65), Override: true, Mode: "enforce", Nodes: []string{"a"}},
			{Rule: "per-path", Key: `"\n\x00\x00\x04","/search"`, Parts: []string{"10.0.0.4", "/search"}, Rate: 540, Error: 12, Denied: 487, Limit: new(50.0), Share: new(10.8), Mode: "shadow", Nodes: []string{"b"}},
			{Rule: "per-ip", Key: "203.0.113.9", Parts: []string{"203.0.113.9"}, Rate: 400, Mode: "enforce", Override: true, Nodes: []string{"a"}},
			{Rule: "per-key", Key: "\"\\x1b[2J\u4e2d\"…", Rate: 17.5, Denied: 1.5, Limit: new(20.0), Share: new(0.875), Mode: "enforce", BannedBy: "operator", Banned: 7200, Nodes: []string{"a"}},
			{Rule: "gone", Key: "\x1b[31m\u202e", Rate: 3, Nodes: []string{"\x1b]0;x\a"}},
			{Rule: "per-ip", Key: "192.0.2.8", Parts: []string{"192.0.2.8"}, Rate: 1, Limit: new(20.0), Share: new(0.05), Mode: "enforce", Nodes: []string{"a"}},
		},
		Totals: &Totals{
			Requests: 81_020, Admitted: 19_400, Denied: 61_620, Clients: 23_317, Bans: 3, Connections: 8, Uptime: 12_345,
			Rules: []Rule{
				{Rule: "per-ip", Mode: "enforce", Admitted: 20_600, Denied: 52_700, Bans: 3},
				{Rule: "per-path", Mode: "shadow", Admitted: 16_700, Denied: 3202},
				{Rule: "per-key", Mode: "enforce", Admitted: 499, Denied: 8.5},
			},
			Store: &Store{Name: "redis", State: "closed", Operations: 123},
		},
	}
}

// show is a screen as text.
func show(v *View, width, height int) string {
	var b strings.Builder
	for _, l := range v.Lines(width, height, noon.Add(time.Second)) {
		b.WriteString(strings.TrimRight(l.Text(), " ") + "\n")
	}
	return b.String()
}

// press presses keys, some of them by name.
func press(v *View, keys ...any) (last Action) {
	for _, k := range keys {
		switch k := k.(type) {
		case string:
			for _, c := range k {
				last = v.Press(screen.Key(c))
			}
		case screen.Key:
			last = v.Press(k)
		}
	}
	return last
}

func TestScreens(t *testing.T) {
	t.Parallel()
	older := &Document{Clients: []Client{{Rule: "per-ip", Key: "192.0.2.7", Rate: 5, Nodes: []string{"a"}}}}
	many := flood()
	for i := range 60 {
		many.Clients = append(many.Clients, Client{Rule: "per-ip", Key: fmt.Sprintf("10.0.0.%d", i), Rate: 0.5, Limit: new(20.0), Share: new(0.025), Mode: "enforce", Nodes: []string{"a"}})
	}
	for i := range 9 {
		many.Totals.Rules = append(many.Totals.Rules, Rule{Rule: fmt.Sprintf("rule-%d", i), Mode: "enforce", Denied: float64(i)})
	}
	for _, tt := range []struct {
		name          string
		width, height int
		doc           *Document
		then          func(v *View)
	}{
		{"wide", 130, 24, flood(), nil},
		{"usual", 80, 24, flood(), nil},
		{"narrow", 50, 16, flood(), nil},
		{"small", 30, 8, flood(), nil},
		{"tiny", 12, 4, flood(), nil},
		{"line", 40, 1, flood(), nil},
		{"waiting", 80, 8, nil, nil},
		{"older", 80, 10, older, nil},
		{"nobody", 80, 14, &Document{Clients: []Client{}, Totals: &Totals{}}, nil},
		{"denied", 80, 16, flood(), func(v *View) { press(v, "d") }},
		{"share", 80, 16, flood(), func(v *View) { press(v, "s") }},
		{"key", 80, 16, flood(), func(v *View) { press(v, "k") }},
		{"rule", 80, 18, flood(), func(v *View) { press(v, "ff", screen.KeyDown) }},
		{"marked", 80, 20, many, func(v *View) { press(v, screen.KeyEnd, screen.KeyUp) }},
		{"help", 80, 20, flood(), func(v *View) { press(v, "h") }},
		{"unreachable", 80, 16, flood(), func(v *View) { v.Fail(errors.New("nothing listens on \x1b[2Jthere")) }},
		{"never", 80, 8, nil, func(v *View) { v.Fail(errors.New("nothing listens there")) }},
		{"paused", 80, 16, flood(), func(v *View) { press(v, "p") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := &View{Admin: "127.0.0.1:8081"}
			if tt.doc != nil {
				v.Show(tt.doc, noon)
			}
			if tt.then != nil {
				_ = show(v, tt.width, tt.height)
				tt.then(v)
			}
			got, file := show(v, tt.width, tt.height), filepath.Join("testdata", tt.name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(file); err != nil || got != string(want) {
				t.Errorf("%v\n%s\nwant\n%s", err, got, want)
			}
		})
	}
}

// Whatever is told and however small the window, lines fit it, and none has what could
// steer a terminal.
func TestLinesFit(t *testing.T) {
	t.Parallel()
	v := &View{Admin: "127.0.0.1:8081", Rule: "\x1b[2Jper-ip"}
	for i := range 100 {
		d := flood()
		d.Clients[0].Parts = []string{"\x1b[2J", "ä\u202e", strings.Repeat("x", 1000)}
		v.Show(d, noon.Add(time.Duration(i)*time.Second))
	}
	for _, change := range []string{"", "f", "\x00", "p", "h"} {
		press(v, change, screen.KeyDown)
		for width := range 150 {
			for height := range 40 {
				lines := v.Lines(width, height, noon)
				if len(lines) > max(height, 1) {
					t.Fatalf("%d lines on %d", len(lines), height)
				}
				for _, l := range lines {
					text := l.Text()
					if utf8.RuneCountInString(text) > max(width, 1) {
						t.Fatalf("%q is wider than %d", text, width)
					}
					if i := strings.IndexFunc(text, func(r rune) bool {
						return (r < ' ' || r > '~') && !strings.ContainsRune("…±▼▁▂▃▄▅▆▇█", r)
					}); i >= 0 {
						t.Fatalf("%q has %q", text, text[i:])
					}
				}
			}
		}
	}
}

// A key wants at once what it needs of the node, and nothing while the screen is held.
func TestKeys(t *testing.T) {
	t.Parallel()
	v := new(View)
	if got := press(v, "dfp", screen.KeyDown, "k"); got != None || v.Order != byKey || !v.Paused {
		t.Errorf("without a document: %v, %+v", got, v)
	}
	v = new(View)
	v.Show(flood(), noon)
	for _, tt := range []struct {
		keys   []any
		action Action
		order  string
		rule   string
		paused bool
		marked string
	}{
		{[]any{"r"}, Refresh, ByRate, "", false, ""},
		{[]any{"d"}, Refresh, byDenied, "", false, ""},
		{[]any{"x", screen.Key(0)}, None, byDenied, "", false, ""},
		{[]any{screen.KeyDown}, None, byDenied, "", false, "192.0.2.7"},
		{[]any{screen.KeyDown}, None, byDenied, "", false, `"\n\x00\x00\x04","/search"`},
		{[]any{"r"}, Refresh, ByRate, "", false, `"\n\x00\x00\x04","/search"`}, // follows its client
		{[]any{screen.KeyUp}, None, ByRate, "", false, "198.51.100.0/24"},
		{[]any{screen.KeyUp, screen.KeyUp, screen.KeyUp}, None, ByRate, "", false, "192.0.2.7"},
		{[]any{screen.KeyEnd, screen.KeyDown}, None, ByRate, "", false, "192.0.2.8"},
		{[]any{screen.KeyHome}, None, ByRate, "", false, "192.0.2.7"},
		{[]any{screen.KeyEscape}, None, ByRate, "", false, ""},
		{[]any{"f"}, Refresh, ByRate, "per-ip", false, ""},
		{[]any{"ff"}, Refresh, ByRate, "per-key", false, ""},
		{[]any{"p"}, None, ByRate, "per-key", true, ""},
		{[]any{"f"}, None, ByRate, "", true, ""},
		{[]any{"s"}, None, byShare, "", true, ""},
		{[]any{"h"}, None, byShare, "", true, ""},
		{[]any{"p"}, None, byShare, "", true, ""}, // leaves the help
		{[]any{" "}, Refresh, byShare, "", false, ""},
		{[]any{ctrlL}, Refresh, byShare, "", false, ""},
		{[]any{"?q"}, Quit, byShare, "", false, ""},
		{[]any{ctrlC}, Quit, byShare, "", false, ""},
	} {
		got, marked := press(v, tt.keys...), ""
		if c := v.Marked(); c != nil {
			marked = c.Key
		}
		if got != tt.action || v.order() != tt.order || v.Rule != tt.rule || v.Paused != tt.paused || marked != tt.marked {
			t.Errorf("%q: action %v, order %s, rule %q, paused %v, marked %q; want %+v", tt.keys, got, v.order(), v.Rule, v.Paused, marked, tt)
		}
	}
}

// Older nodes do not sort.
func TestShowSorts(t *testing.T) {
	t.Parallel()
	v := &View{Order: ByRate}
	d := flood()
	slices.Reverse(d.Clients)
	v.Show(d, noon)
	if c := v.clients()[0]; c.Rate != 26_612 {
		t.Errorf("%+v is first", c)
	}
}

// A rule that a reload has removed is shown no longer once a key says so.
func TestRuleThatIsGone(t *testing.T) {
	t.Parallel()
	v := &View{Rule: "gone-rule"}
	v.Show(flood(), noon)
	if press(v, "f"); v.Rule != "" {
		t.Errorf("rule %q, want all", v.Rule)
	}
}

func TestOrders(t *testing.T) {
	t.Parallel()
	for order, want := range map[string]string{
		ByRate:   "192.0.2.7 198.51.100.0/24 10.0.0.4 /search 203.0.113.9",
		byDenied: "192.0.2.7 10.0.0.4 /search",
		byShare:  "192.0.2.7 10.0.0.4 /search",
	} {
		d := flood()
		slices.Reverse(d.Clients)
		d.sort(order)
		var names []string
		for i := range d.Clients {
			names = append(names, d.Clients[i].name())
		}
		if got := strings.Join(names, " "); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", order, got, want)
		}
	}
}

// Without colors a screen still shows what is bold or reversed, which is no color.
func TestPaint(t *testing.T) {
	t.Parallel()
	l := Line{{"a", Plain}, {"b", Bold}, {"c", Red}, {"d", Reverse}}
	if got, want := l.Paint(true), "a\x1b[1mb\x1b[m\x1b[31mc\x1b[m\x1b[7md\x1b[m"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := l.Paint(false), "a\x1b[1mb\x1b[mc\x1b[7md\x1b[m"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestPercent(t *testing.T) {
	t.Parallel()
	for x, want := range map[float64]string{0: "0.0%", 0.05: "5.0%", 0.0996: "10%", 1: "100%", 99.9: "9990%", 1330.6: "1331x"} {
		if got := percent(x); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
}

func TestBar(t *testing.T) {
	t.Parallel()
	for share, want := range map[float64]int{0: 0, 0.05: 0, 0.5: 3, 1: 5, 1.01: 6, 3: 6, 3.1: 7, 27: 8, 100: 10, 1e9: 10} {
		if got := bar(share, 10); len(got) != 10 || strings.Count(got, "|") != want {
			t.Errorf("%v: %q, want %d", share, got, want)
		}
	}
	for text, want := range map[string]string{"": `""`, "a b": `"a b"`, `a"`: `"a\""`, "ä": `"\u00e4"`, "2001:db8::/64": "2001:db8::/64", "\x1b": `"\x1b"`} {
		if got := word(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	var h history
	for i := range 100 {
		h.add(&Totals{Denied: float64(i % 9), Uptime: float64(i)})
	}
	if got, want := h.line(9), "denied |▁▂▃▄▅▆▇█ | at most 8.0/s"; got != want || len(h.denied) != remembered {
		t.Errorf("%q of %d, want %q", got, len(h.denied), want)
	}
	if h.add(&Totals{Uptime: 1}); h.line(9) != "" || h.line(-1) != "" {
		t.Errorf("after a restart: %q", h.line(9))
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	for body, ok := range map[string]bool{`{"clients":[]}`: true, `{}`: false, `{"clients":null}`: false, `<html>`: false, `{"clients":[{"rule":1}]}`: false} {
		if _, err := Decode([]byte(body)); (err == nil) != ok {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := flood().Write(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	if want := "per-ip    192.0.2.7                   26612.0  311.0  26600.0   20.0     1331x  banned,13s         a,b"; lines[1] != want {
		t.Errorf("%q, want %q", lines[1], want)
	}
	if strings.ContainsAny(b.String(), "\x1b\a") {
		t.Errorf("%q", b.String())
	}
}

// Proxies that nobody has configured are named before all else, as printable text.
func TestWriteWarns(t *testing.T) {
	t.Parallel()
	d := flood()
	d.Totals = &Totals{UntrustedProxies: []string{"127.0.0.1", "\x1b[2J"}}
	var b strings.Builder
	if err := d.Write(&b); err != nil {
		t.Fatal(err)
	}
	if first, _, _ := strings.Cut(b.String(), "\n"); !strings.HasPrefix(first, "WARNING: other clients come through 127.0.0.1, ") || strings.Contains(first, "\x1b") {
		t.Errorf("%q", first)
	}
}

func TestStateOfStore(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]string{"closed": "up", "open": "down", "half-open": "half-open"} {
		if got := stateOfStore(state); got != want {
			t.Errorf("%s: %q, want %q", state, got, want)
		}
	}
}
