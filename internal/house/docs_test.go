package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

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
	makeTarget = regexp.MustCompile("(?m)(?:^ {4}|`|^)make ([a-z]+(?:-[a-z]+)*)(?:`| *$|  | [A-Z#])")
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
			if name != "ARCHITECTURE.md" && !exists(m[1]) { // which TestArchitectureNamesWhatExists reads
				t.Errorf("%s: names %s, which does not exist", name, m[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d targets, links and files found in all pages", found)
	}
}

// ARCHITECTURE.md names every folder at the top and in internal/, and fits two pages.
func TestMapsAreComplete(t *testing.T) {
	t.Parallel()
	page := documents(t)["ARCHITECTURE.md"]
	for _, p := range mustPackages(t) {
		top, rest, _ := strings.Cut(p.name(), "/")
		if top == "internal" {
			second, _, _ := strings.Cut(rest, "/")
			top += "/" + second
		} else if top == "." {
			continue
		}
		if !strings.Contains(page, "`"+top+"/") {
			t.Errorf("ARCHITECTURE.md: the table of folders lacks `%s/`", top)
		}
	}
	if len(page) > 14_000 {
		t.Errorf("ARCHITECTURE.md: %d bytes, want at most 14,000: what concerns one package belongs in its comments", len(page))
	}
}

var (
	anyPath  = regexp.MustCompile("`((?:\\./|[a-z0-9]+/)*(?:[a-z0-9_]+\\.(?:go|lua|md))?)`")
	walkStep = regexp.MustCompile(`(?m)^\d+\. `)
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

// paths returns the files and folders that a page names, from the root: a file without a
// folder is in the folder of the file before it.
func paths(page string) []string {
	var found []string
	folder := "."
	for _, m := range anyPath.FindAllStringSubmatch(page, -1) {
		path := m[1]
		if dir, name := filepath.Split(path); dir == "" {
			path = filepath.Join(folder, name)
		} else if name != "" {
			folder = dir
		}
		found = append(found, filepath.Clean(path))
	}
	return found
}

// Every path in ARCHITECTURE.md is that of a file or a folder.
func TestArchitectureNamesWhatExists(t *testing.T) {
	t.Parallel()
	page := strings.ReplaceAll(documents(t)["ARCHITECTURE.md"], section(t, documents(t)["ARCHITECTURE.md"], "## Packages"), "")
	found := paths(page)
	for _, name := range found {
		if !exists(name) {
			t.Errorf("ARCHITECTURE.md: names %s, which does not exist", name)
		}
	}
	if len(found) < 40 {
		t.Errorf("only %d files and folders found", len(found))
	}
}

// A walk that enters a file twice would show two packages that reach into each other.
func TestWalkEntersNoFileTwice(t *testing.T) {
	t.Parallel()
	request, _, _ := strings.Cut(section(t, documents(t)["ARCHITECTURE.md"], "## A request"), "\nWhere a rule")
	if n := len(walkStep.FindAllString(request, -1)); n != 15 {
		t.Errorf("the walk of a request has %d steps, want 15", n)
	}
	walk := paths(request)
	slices.Sort(walk)
	for i, name := range walk[1:] {
		if name == walk[i] {
			t.Errorf("the walk of a request enters %s twice", name)
		}
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// No line of prose has more than 120 characters: long ones are hard to read in a diff and
// in a terminal. Code, tables, comments and measured reports are as wide as they are.
func TestProseIsNarrow(t *testing.T) {
	t.Parallel()
	for name, page := range documents(t) {
		code := false
		for i, line := range strings.Split(page, "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				code = !code
			}
			wide := utf8.RuneCountInString(line) > 120
			if wide && !code && !strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "    ") && !strings.HasPrefix(line, "<!--") {
				t.Errorf("%s:%d: a line of %d characters, want at most 120", name, i+1, utf8.RuneCountInString(line))
			}
		}
	}
}

// Pages for operators name no tests: whoever runs a node cannot use them.
func TestOperatorsReadNoTestNames(t *testing.T) {
	t.Parallel()
	for name, page := range documents(t) {
		if filepath.Dir(name) != "docs" || name == filepath.Join("docs", "benchmarks.md") {
			continue
		}
		for _, m := range regexp.MustCompile("`(?:Test|Fuzz|Benchmark)[A-Z]\\w*`").FindAllString(page, -1) {
			t.Errorf("%s names %s: say what it shows instead", name, m)
		}
	}
}
