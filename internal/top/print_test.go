package top

import (
	"strings"
	"testing"
)

// Groups are printed with what they do not hold as the last line, whatever clients and nodes wrote.
func TestWriteGroups(t *testing.T) {
	t.Parallel()
	g, err := DecodeGroups([]byte(`{"by":"net","requests":100,"groups":[
		{"group":"192.0.2.0/24","rate":60,"error":0.5,"denied":59.5,"share":0.6},
		{"group":"\u001b[2J x","rate":30,"share":0.3}],
		"totals":{"untrusted_proxies":["127.0.0.1"]}}`))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := g.Write(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	if len(lines) != 6 || !strings.HasPrefix(lines[0], "WARNING: other clients come through 127.0.0.1") || strings.Contains(b.String(), "\x1b") {
		t.Fatalf("%q", b.String())
	}
	for i, want := range []string{"NET REQUESTS/S ± DENIED/S SHARE", "192.0.2.0/24 60.0 0.5 59.5 60%", "", "(others) 10.0 - - 10%"} {
		if got := strings.Join(strings.Fields(lines[i+1]), " "); want != "" && got != want {
			t.Errorf("line %d: %q, want %q", i+1, got, want)
		}
	}
	if !strings.HasPrefix(lines[3], `"\x1b[2J x" `) {
		t.Errorf("a name that is no word: %q", lines[3])
	}
}

// Other services may answer with JSON too: groups must be there, even if empty.
func TestDecodeGroups(t *testing.T) {
	t.Parallel()
	for body, ok := range map[string]bool{`{"groups":[]}`: true, `{}`: false, `{"clients":[]}`: false, `<html>`: false} {
		if _, err := DecodeGroups([]byte(body)); (err == nil) != ok {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// A cell that would be empty has a dash, so that scripts can split lines.
func TestWriteEveryColumn(t *testing.T) {
	t.Parallel()
	d := &Document{Clients: []Client{{Rule: "per-ip", Key: "192.0.2.7", Rate: 3, Nodes: []string{"a"}}, {Rule: "per-ip", Key: "192.0.2.8", Rate: 3, Share: new(1.5), Nodes: []string{"a"}}}}
	var b strings.Builder
	if err := d.Write(&b); err != nil {
		t.Fatal(err)
	}
	for i, state := range []string{"-", "over"} {
		if fields := strings.Fields(strings.Split(b.String(), "\n")[i+1]); len(fields) != 9 || fields[7] != state {
			t.Errorf("%q, want the state %s in column 8 of 9", fields, state)
		}
	}
}
