package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// repository makes a repository of these files, committed on main, and works in it.
func repository(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, v := range []string{"GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"} {
		t.Setenv(v, "test@example.com")
	}
	testkit.WriteTree(t, files)
	git(t, "init", "--quiet", "--initial-branch=main")
	git(t, "add", ".")
	git(t, "commit", "--quiet", "--message=begin")
}

func git(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// house is a module of three packages: b imports a, and c's test imports a and reads a page.
var house = map[string]string{
	"go.mod":       "module " + modulePath + "\n\ngo 1.26\n",
	"a/a.go":       "package a\n",
	"b/b.go":       "package b\n\nimport _ \"" + modulePath + "/a\"\n",
	"b/b_test.go":  "package b\n",
	"c/c.go":       "package c\n",
	"c/c_test.go":  "package c\n\nimport _ \"" + modulePath + "/a\"\n\nconst page = \"docs/page.md\"\n",
	"d/d.go":       "package d\n",
	"d/d_test.go":  "package d\n",
	"docs/page.md": "",
	"d/testdata/x": "",

	"docs/recipes/doc.go":    "package recipes\n",
	"docs/recipes/x_test.go": "package recipes\n\nimport _ \"" + modulePath + "/a\"\n",

	"internal/house/mutants/main.go":      "package main\n",
	"internal/house/mutants/main_test.go": "package main\n",
	"testdata/mutants/a/x.diff":           "",
}

// What a change concerns: its packages, and the tests that link them or name its files.
func TestConcerned(t *testing.T) {
	for _, c := range []struct {
		change           string
		changed, linking string
	}{
		{"a/a.go", "a", "b c"},
		{"a/new.go", "a", "b c"}, // not known to git
		{"b/b_test.go", "b", "b"},
		{"docs/page.md", "c", "c"},
		{"d/testdata/x", "d", "d"},
		{"docs/recipes/doc.go", "recipes", "docs/recipes"}, // tried among other programs: not if only a changes
		{"testdata/mutants/a/x.diff", "mutants", "internal/house/mutants"},
		{"LICENSE", "", ""},
	} {
		repository(t, house)
		testkit.WriteTree(t, map[string]string{c.change: "package " + filepath.Base(filepath.Dir(c.change)) + "\n\n// changed\n"})
		files, err := changed("main")
		if err != nil || len(files) != 1 || files[0] != c.change {
			t.Fatalf("%s: files %v, %v", c.change, files, err)
		}
		folders, err := touched(files)
		if err != nil {
			t.Fatal(err)
		}
		p, err := list(".", folders, false)
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.changed {
			p.changed[i] = filepath.Base(p.changed[i])
		}
		for i := range p.linking {
			p.linking[i] = strings.TrimPrefix(p.linking[i], modulePath+"/")
		}
		if got, want := strings.Join(p.changed, " "), c.changed; got != want {
			t.Errorf("%s: changed %q, want %q", c.change, got, want)
		}
		slices.Sort(p.linking)
		if got, want := strings.Join(p.linking, " "), c.linking; got != want {
			t.Errorf("%s: tests of %q, want %q", c.change, got, want)
		}
	}
	repository(t, house)
	if p, err := list(".", nil, true); err != nil || len(p.linking) != 4 {
		t.Errorf("go.mod: tests of %v, %v", p.linking, err)
	}
}

// Changes are compared with the commit where the branch left its base.
func TestChangedSinceTheFork(t *testing.T) {
	repository(t, house)
	git(t, "switch", "--quiet", "--create=branch")
	testkit.WriteTree(t, map[string]string{"b/b.go": "package b\n"})
	git(t, "commit", "--quiet", "--all", "--message=on the branch")
	git(t, "switch", "--quiet", "main")
	testkit.WriteTree(t, map[string]string{"c/c.go": "package c\n\n// changed\n"})
	git(t, "commit", "--quiet", "--all", "--message=on main")
	git(t, "switch", "--quiet", "branch")
	if files, err := changed("main"); err != nil || len(files) != 1 || files[0] != "b/b.go" {
		t.Errorf("%v, %v: want b/b.go", files, err)
	}
}

func TestRefused(t *testing.T) {
	repository(t, house)
	var out bytes.Buffer
	if err := check("main", "no-such-linter", &out); err != nil || !strings.Contains(out.String(), "BASE=HEAD~1") {
		t.Errorf("nothing changed: %v, %q", err, out.String())
	}
	if err := check("no-such-branch", "no-such-linter", &out); err == nil || !strings.Contains(err.Error(), "BASE=") {
		t.Errorf("no base: %v", err)
	}
	testkit.WriteTree(t, map[string]string{"a/a.go": "package a\nvar  x int\n"})
	if err := check("main", "no-such-linter", &out); err == nil || !strings.Contains(err.Error(), "a/a.go") {
		t.Errorf("not formatted: %v", err)
	}
}
