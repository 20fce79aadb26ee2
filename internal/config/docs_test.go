package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit"
)

func repoFile(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestExampleFile(t *testing.T) {
	t.Parallel()
	text := repoFile(t, "fastlimit.example.yaml")
	c, err := Parse("fastlimit.example.yaml", []byte(text), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	checkAccepted(t, c)
	if w := Warnings(c, plan(t, c)); len(w) > 0 {
		t.Errorf("warnings: %q", w)
	}
	for _, name := range settings(t) {
		if !regexp.MustCompile(`(?m)^[ -]*(# *)?[ -]*\{?` + name + `:`).MatchString(text) {
			t.Errorf("setting %s is missing", name)
		}
	}
	// What the file calls a default is one.
	lean := mustParse(t, "rules: [{name: per-ip, rate: 100/s}]")
	if !reflect.DeepEqual(c.Server, lean.Server) || c.DenyStatus != lean.DenyStatus || !reflect.DeepEqual(c.Limits, lean.Limits) ||
		c.Policy.ClientIPHeader != lean.Policy.ClientIPHeader || c.Policy.OriginalRequest != lean.Policy.OriginalRequest {
		t.Errorf("not the defaults: %+v", c)
	}
}

// settings returns every setting that is understood.
func settings(t *testing.T) (all []string) {
	t.Helper()
	for _, s := range sections {
		for _, f := range s.settings {
			if f.value.read != nil {
				all = append(all, f.name)
			}
		}
	}
	if len(all) < 75 {
		t.Fatalf("%d settings: %v", len(all), all)
	}
	return all
}

// block is a block of a page, with the environment that it is meant for.
var block = regexp.MustCompile("(?s)(?:<!-- env: ([^\n]*) -->\n)?```(yaml|yaml bad|text)\n(.*?)```")

// TestPages runs what the pages about bans, about clusters and about moving show.
func TestPages(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"bans.md", "cluster.md", "migrate.md"} {
		blocks := block.FindAllStringSubmatch(repoFile(t, "docs", page), -1)
		if len(blocks) == 0 {
			t.Errorf("%s: no blocks", page)
		}
		for _, b := range blocks {
			checkBlock(t, b[3], b[1])
		}
	}
}

// table is a table of settings in docs/configuration.md.
var table = regexp.MustCompile(`(?m)^\| setting \| type \| default \| meaning \|\n(?:\|.*\n)+`)

// rows are the settings of a section as that page has them.
func rows(s *section) string {
	var b strings.Builder
	b.WriteString("| setting | type | default | meaning |\n|---|---|---|---|\n")
	for _, f := range s.settings {
		def := f.shown
		switch {
		case f.required != "":
			def = "required"
		case f.def != "":
			def = "`" + f.def + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.name, f.value.docs, def, f.doc)
	}
	return b.String()
}

// Every setting stands in the tables of the reference with its type and bounds,
// its default and what it means, and nothing else does.
func TestReferenceTables(t *testing.T) {
	t.Parallel()
	page := repoFile(t, "docs", "configuration.md")
	all := table.FindAllStringIndex(page, -1)
	if len(all) != len(sections) {
		t.Fatalf("%d tables for %d sections", len(all), len(sections))
	}
	written := page
	for i, s := range slices.Backward(sections) {
		if got, want := page[all[i][0]:all[i][1]], rows(s); got != want {
			t.Errorf("%s: the table is not that of the settings; go test -update writes it:\n%s\nwant\n%s", s.name, got, want)
			written = written[:all[i][0]] + want + written[all[i][1]:]
		}
	}
	if *update && written != page {
		if err := os.WriteFile(filepath.Join("..", "..", "docs", "configuration.md"), []byte(written), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReference runs what docs/configuration.md shows.
func TestReference(t *testing.T) {
	t.Parallel()
	text := repoFile(t, "docs", "configuration.md")
	blocks := block.FindAllStringSubmatch(text, -1)
	if len(blocks) < 10 {
		t.Fatalf("%d blocks", len(blocks))
	}
	bad, shown := "", ""
	for _, b := range blocks {
		switch b[2] {
		case "yaml":
			checkBlock(t, b[3], b[1])
		case "yaml bad":
			bad = b[3]
		case "text":
			shown = b[3]
		}
	}
	_, err := Parse("fastlimit.yaml", []byte(bad), noEnv)
	if err == nil || err.Error()+"\n" != shown {
		t.Errorf("the errors shown are not those of the file:\n%v", err)
	}
}

// hasRules reports whether a block is more than a section.
func hasRules(text string) bool { return regexp.MustCompile(`(?m)^rules:`).MatchString(text) }

func checkBlock(t *testing.T, text, env string) {
	t.Helper()
	lookup := func(name string) (string, bool) {
		for pair := range strings.FieldsSeq(env) {
			if value, ok := strings.CutPrefix(pair, name+"="); ok {
				return value, true
			}
		}
		return "", false
	}
	if !hasRules(text) {
		text += rule
	}
	files := machine{readFile: func(path string) ([]byte, error) {
		return []byte("busy-for-{{retry_after}}-seconds-" + filepath.Base(path) + "\n"), nil
	}}
	c, err := parse("configuration.md", []byte(text), lookup, files)
	if err != nil {
		t.Errorf("%s%v", text, err)
		return
	}
	if _, err := fastlimit.NewPlan(c.Limiter()); err != nil {
		t.Error(err)
	}
}
