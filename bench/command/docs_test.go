package command

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// shown finds command lines in the documents.
var shown = regexp.MustCompile("go run \\./bench ([^`\n#&|>]+)")

// Every command line in the documents is one that this program takes.
func TestDocumentedCommandsParse(t *testing.T) {
	t.Parallel()
	found := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		pages, err := filepath.Glob(filepath.Join("..", "..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			b, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range shown.FindAllStringSubmatch(string(b), -1) {
				args := strings.Fields(m[1])
				if strings.Contains(m[1], "…") {
					continue // the form of all
				}
				found++
				if _, err := program("bench", new(commands), &system{io.Discard, io.Discard}).Parser().Parse(args); err != nil {
					t.Errorf("%s: %s: %v", page, m[0], err)
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d command lines found", found)
	}
}
