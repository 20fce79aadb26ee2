package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/internal/config"
)

// documents are the pages for people at the top, and those below docs.
func documents(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			pages[name] = string(b)
		}
	}
	if len(pages) < 5 {
		t.Fatalf("only %d pages found", len(pages))
	}
	return pages
}

var fenced = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

// blocks returns the fenced blocks of a page in one language.
func blocks(page, language string) (all []string) {
	for _, m := range fenced.FindAllStringSubmatch(page, -1) {
		if m[1] == language {
			all = append(all, m[2])
		}
	}
	return all
}

// What docs/embedding.md shows is part of examples that are run.
func TestEmbeddingShowsExamples(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/embedding.md")
	if err != nil {
		t.Fatal(err)
	}
	names, _ := filepath.Glob("middleware/*/example_test.go")
	names = append(names, "policy/example_test.go")
	var examples strings.Builder
	for _, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		examples.WriteString(strings.ReplaceAll(string(src), "\n\t", "\n"))
	}
	shown := blocks(string(page), "go")
	if len(shown) == 0 || len(names) < 2 {
		t.Fatalf("%d blocks, %d files of examples", len(shown), len(names))
	}
	for _, block := range shown {
		if !strings.Contains(examples.String(), "\n"+block) {
			t.Errorf("docs/embedding.md: no example in %v has\n%s", names, block)
		}
	}
}

// What README shows of the library is an example that is run.
func TestReadmeShowsTheExample(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(src), "\nfunc ExampleLimiter() {\n")
	body, output, found := strings.Cut(body, "\n\t// Output:\n")
	if !found {
		t.Fatal("no ExampleLimiter with an output")
	}
	want := strings.TrimSuffix(strings.ReplaceAll("\n"+body, "\n\t", "\n")[1:], "\n")
	readme := documents(t)["README.md"]
	shown := blocks(readme, "go")
	if len(shown) != 1 || strings.TrimSpace(shown[0]) != strings.TrimSpace(want) {
		t.Errorf("README.md shows\n%q\nExampleLimiter is\n%q", shown, want)
	}
	output, _, _ = strings.Cut(output, "\n}")
	for line := range strings.Lines(output) {
		if line = strings.TrimPrefix(strings.TrimSpace(line), "// "); !strings.Contains(readme, "`"+line+"`") {
			t.Errorf("README.md does not say that the example prints %q", line)
		}
	}
}

// Whoever copies a configuration from the front page gets one that works.
func TestReadmeConfigurationIsValid(t *testing.T) {
	t.Parallel()
	all := blocks(documents(t)["README.md"], "yaml")
	if len(all) == 0 {
		t.Error("README.md has no configuration")
	}
	for _, b := range all {
		if _, err := config.Parse("README.md", []byte(b), nil); err != nil {
			t.Errorf("%v in\n%s", err, b)
		}
	}
}

var (
	makeTarget = regexp.MustCompile("(?m)(?:^ {4}|`|^)make ([a-z]+)")
	link       = regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`)
	goFile     = regexp.MustCompile("`([a-z_/]+\\.go)`")
)

func TestDocumentsPointSomewhere(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for name, page := range documents(t) {
		for _, m := range makeTarget.FindAllStringSubmatch(page, -1) {
			found++
			if !strings.Contains(string(makefile), "\n"+m[1]+":") {
				t.Errorf("%s: the Makefile has no target %q", name, m[1])
			}
		}
		for _, m := range link.FindAllStringSubmatch(page, -1) {
			found++
			if target := m[1]; !strings.Contains(target, "://") && !exists(filepath.Join(filepath.Dir(name), target)) {
				t.Errorf("%s: link to %s, which does not exist", name, target)
			}
		}
		for _, m := range goFile.FindAllStringSubmatch(page, -1) {
			found++
			if !exists(m[1]) {
				t.Errorf("%s: names %s, which does not exist", name, m[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d targets, links and files found in all pages", found)
	}
}

// The maps of README and ARCHITECTURE name every folder and file there is at
// the top.
func TestMapsAreComplete(t *testing.T) {
	t.Parallel()
	pages := documents(t)
	for _, p := range mustPackages(t) {
		top, _, _ := strings.Cut(p.name(), "/")
		if top == "." || top == "internal" {
			top = p.name()
		}
		if strings.HasPrefix(top, "internal/") && len(p.GoFiles)+len(p.XTestGoFiles) > 0 && testHelper(p) || top == "." {
			continue
		}
		if !strings.Contains(pages["ARCHITECTURE.md"], top+"/") {
			t.Errorf("ARCHITECTURE.md: the file map lacks %s/", top)
		}
	}
	for _, name := range mustGlob(t, "*.go") {
		if !strings.HasSuffix(name, "_test.go") && !strings.Contains(pages["ARCHITECTURE.md"], name) {
			t.Errorf("ARCHITECTURE.md: the file map lacks %s", name)
		}
	}
}

var (
	anyFile   = regexp.MustCompile(`[\w./-]*\w\.(?:go|lua|md)\b`)
	mapFolder = regexp.MustCompile(`[\w/]+/(?:\s|$)`)
	walkStep  = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")
)

// section returns the part of a page from a heading to the next one of any level.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, "\n"+heading+"\n")
	if !ok {
		t.Fatalf("no heading %q", heading)
	}
	rest, _, _ = strings.Cut(rest, "\n#")
	return rest
}

// Every path in ARCHITECTURE.md is that of a file or a folder.
func TestArchitectureNamesWhatExists(t *testing.T) {
	t.Parallel()
	page := documents(t)["ARCHITECTURE.md"]
	folders := mapFolder.FindAllString(section(t, page, "## File map"), -1)
	for _, name := range append(anyFile.FindAllString(page, -1), folders...) {
		if name = strings.TrimSpace(name); !exists(name) {
			t.Errorf("ARCHITECTURE.md: names %s, which does not exist", name)
		}
	}
	if len(folders) < 40 {
		t.Errorf("the file map has %d folders only", len(folders))
	}
}

// A walk that enters a file twice would show two rooms that reach into each other.
func TestWalksEnterNoFileTwice(t *testing.T) {
	t.Parallel()
	page := documents(t)["ARCHITECTURE.md"]
	for heading, least := range map[string]int{"### A request": 25, "### A suspect's take through the shared store": 10, "### A reload": 10} {
		var walk []string
		for _, m := range walkStep.FindAllStringSubmatch(section(t, page, heading), -1) {
			if slices.Contains(walk, m[1]) {
				t.Errorf("%q enters %s twice", heading, m[1])
			}
			walk = append(walk, m[1])
		}
		if len(walk) < least {
			t.Errorf("%q has %d files: want a table with a file in the first column of each line", heading, len(walk))
		}
	}
}

// testHelper tells whether a package serves tests only.
func testHelper(p *goPackage) bool {
	for _, k := range keep {
		if k.dependency == p.ImportPath && k.trees == nil {
			return true
		}
	}
	return false
}

func mustGlob(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
