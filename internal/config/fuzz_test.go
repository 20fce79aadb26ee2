package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// FuzzParse: whatever the file holds, Parse returns in time, either with a
// configuration that limiter and policy accept, or with errors that have a
// place in the file and fit on a line each.
func FuzzParse(f *testing.F) {
	seeds, err := filepath.Glob(filepath.Join("testdata", "*.yaml"))
	if err != nil || len(seeds) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, path := range append(seeds, filepath.Join("..", "..", "fastlimit.example.yaml")) {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, s := range []string{
		"", "\n", rule, "rules: [{name: a, rate: 1/d, key: [path, ip/1/1]}]", "a: ${A}\nb: $${", "x: &a [*a]\n<<: *a\n", "- - -\n", "{{", "[[",
		"a: |\n  x\n b", "a: >-\n\n", "\"\\x41\\u0041\": '''", "? a\n: b", "!!str a: !<x> b", "--- a\n...\n---", "%TAG ! x\n--- a", "a:\n\t- b", "a: # b\n c", "\ufeffa: b",
		"rules: [{name: ${X}, rate: ${X}}]\nlisten: [a:1, [::]:0]",
	} {
		f.Add([]byte(s))
	}
	lookup := func(name string) (string, bool) { return "${" + name + "}: [", name != "A" }
	f.Fuzz(func(t *testing.T, data []byte) {
		// A parser that hangs leaves no trace but this.
		hung := time.AfterFunc(30*time.Second, func() { panic(fmt.Sprintf("hangs on %q", data)) })
		c, err := Parse("f.yaml", data, lookup)
		hung.Stop()
		if err == nil {
			checkAccepted(t, c)
			return
		}
		var all Errors
		if !errors.As(err, &all) || len(all) == 0 || c != nil {
			t.Fatalf("%T %v beside %v", err, err, c)
		}
		lines := 2 + strings.Count(string(data), "\n") + strings.Count(string(data), "\r")
		for _, e := range all {
			if e.Line < 1 || e.Column < 1 || e.Line > lines || e.Column > len(data)+2 {
				t.Errorf("no such place: %v", e)
			}
			if text := e.Error(); strings.ContainsAny(text, "\n\r") || !strings.HasPrefix(text, "f.yaml:") || len(text) > 4096 {
				t.Errorf("not a line: %.5000q", text)
			}
		}
	})
}
