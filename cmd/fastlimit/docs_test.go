package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// shown finds command lines in the documents: indented, in fenced blocks, in
// backquotes.
var shown = regexp.MustCompile("(?m)(?:^ *(?:# +)?|`)(?:go run \\./cmd/)?fastlimit ((?:serve|validate|replay|migrate|suggest|schema|version|top|bans|ban|unban|help)\\b[^`\n#&|>]*)")

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
	found := 0
	for _, page := range pages {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range shown.FindAllStringSubmatch(string(b), -1) {
			args := strings.Fields(m[1])
			if len(args) == 1 && args[0] != "serve" {
				continue // the name of a command in a sentence
			}
			found++
			if _, err := program(&system{stdout: io.Discard, stderr: io.Discard}).Parser().Parse(args); err != nil {
				t.Errorf("%s: fastlimit %s: %v", page, strings.TrimSpace(m[1]), err)
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d command lines found", found)
	}
}
