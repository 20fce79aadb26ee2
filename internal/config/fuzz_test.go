package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// FuzzParse: whatever the file holds, Parse returns in time, either with a
// configuration that limiter and policy accept, or with errors that have a
// place in the file, say what to write, and fit on a line each.
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
		"\"\\b4\t\t\t 0'\\'", " |\n a:  \n: |" + strings.Repeat(" ", 9000) + strings.Repeat("E", 3000) + "\n ",
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
		if c != nil {
			t.Fatalf("%v beside %v", err, c)
		}
		checkErrors(t, "f.yaml", string(data), err)
	})
}
