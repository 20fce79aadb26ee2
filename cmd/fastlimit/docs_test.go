package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Command lines in the documents are in backquotes, or lines that begin with a command: indented
// and in fenced blocks. A line of prose may begin with "fastlimit" too.
var (
	quoted = regexp.MustCompile("`(?:go run \\./cmd/)?fastlimit ([a-z][^`\n#&|>]*)")
	shown  = regexp.MustCompile("(?m)^ *(?:# +)?(?:go run \\./cmd/)?fastlimit ([a-z][^`\n#&|>]*)")
)

// Every command line in the documents is one that this binary takes.
func TestDocumentedCommandsParse(t *testing.T) {
	t.Parallel()
	var pages []string
	for _, pattern := range []string{"*.md", "*.yaml", "docs/*.md", "docs/*/*.md"} {
		names, err := filepath.Glob(filepath.Join("..", "..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, names...)
	}
	commands := map[string]bool{}
	for _, c := range program(&system{stdout: io.Discard, stderr: io.Discard}).Parser().Model.Children {
		commands[c.Name] = true
	}
	found := 0
	for _, page := range pages {
		if filepath.Base(page) == "CHANGELOG.md" { // which names what there was
			continue
		}
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		lines := quoted.FindAllStringSubmatch(string(b), -1)
		inBackquotes := len(lines)
		for i, m := range append(lines, shown.FindAllStringSubmatch(string(b), -1)...) {
			args := strings.Fields(m[1])
			if known := commands[args[0]]; !known && i >= inBackquotes {
				continue // prose
			} else if known && len(args) == 1 && args[0] != "serve" {
				continue // the name of a command in a sentence
			}
			found++
			if _, err := program(&system{stdout: io.Discard, stderr: io.Discard}).Parser().Parse(args); err != nil {
				t.Errorf("%s: fastlimit %s: %v", page, strings.TrimSpace(m[1]), err)
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d command lines found", found)
	}
}
