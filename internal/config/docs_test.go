package config

import (
	"os"
	"path/filepath"
	"regexp"
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
	if c.Listeners[0] != lean.Listeners[0] || c.Admin != lean.Admin || c.DenyStatus != lean.DenyStatus ||
		c.Memory != lean.Memory || c.TopTalkers != lean.TopTalkers || c.DecideAPI != lean.DecideAPI ||
		c.Connections != lean.Connections || c.Drain != lean.Drain ||
		c.Policy.ClientIPHeader != lean.Policy.ClientIPHeader || c.Policy.OriginalRequest != lean.Policy.OriginalRequest {
		t.Errorf("not the defaults: %+v", c)
	}
}

// settings returns every setting that is understood, as errors list them.
func settings(t *testing.T) []string {
	t.Helper()
	_, err := Parse("f.yaml", []byte("x: 1\nlisten: [{x: 1}]\nconnections: {x: 1}\ndrain: {x: 1}\nredis: {x: 1}\ncluster: {x: 1}\nrules: [{x: 1, match: {x: 1}}]\n"), noEnv)
	var all []string
	for line := range strings.Lines(err.Error()) {
		if _, list, ok := strings.Cut(strings.TrimSpace(line), "valid here: "); ok {
			all = append(all, strings.Split(list, ", ")...)
		}
	}
	if len(all) != 17+2+6+2+10+12+3+23 {
		t.Fatalf("%d settings: %v", len(all), all)
	}
	return all
}

// block is a block of a page, with the environment that it is meant for.
var block = regexp.MustCompile("(?s)(?:<!-- env: ([^\n]*) -->\n)?```(yaml|yaml bad|text)\n(.*?)```")

// TestClusterPage runs what docs/cluster.md shows.
func TestClusterPage(t *testing.T) {
	t.Parallel()
	blocks := block.FindAllStringSubmatch(repoFile(t, "docs", "cluster.md"), -1)
	if len(blocks) == 0 {
		t.Error("no blocks")
	}
	for _, b := range blocks {
		checkBlock(t, b[3], b[1])
	}
}

// TestReference runs what docs/configuration.md shows.
func TestReference(t *testing.T) {
	t.Parallel()
	text := repoFile(t, "docs", "configuration.md")
	for _, name := range settings(t) {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("setting %s is missing", name)
		}
	}
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
	if !strings.Contains(text, "rules:") {
		text += rule
	}
	c, err := Parse("configuration.md", []byte(text), lookup)
	if err != nil {
		t.Errorf("%s%v", text, err)
		return
	}
	if _, err := fastlimit.NewPlan(c.Limiter()); err != nil {
		t.Error(err)
	}
}
