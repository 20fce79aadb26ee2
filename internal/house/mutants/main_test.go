package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

const header = "# Sums are exact.\n# package: ./a\n# test: TestSum|TestSum2\n"

// diff changes the sum of package a.
func diff(sum string) string {
	return "diff --git a/a/a.go b/a/a.go\n--- a/a/a.go\n+++ b/a/a.go\n@@ -1,3 +1,3 @@\n package a\n \n" +
		"-func Sum(a, b int) int { return a + b }\n+func Sum(a, b int) int { " + sum + " }\n"
}

// tree makes a work tree with a package whose Sum is right, and works in it.
func tree(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	testkit.WriteTree(t, map[string]string{
		".gitignore": "/.tmp/\n",
		"go.mod":     "module m\n\ngo 1.26\n",
		"a/a.go":     "package a\n\nfunc Sum(a, b int) int { return a + b }\n",
		"a/a_test.go": `package a
import "testing"
func TestSum(t *testing.T) { if Sum(1, 2) != 3 { t.Error() } }
func TestSum2(t *testing.T) {}
func TestZero(t *testing.T) { if Sum(0, 0) != 0 { t.Error() } }
`,
	})
	testkit.WriteTree(t, files)
	if out, err := exec.Command("git", "init", "--quiet").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// What becomes of mutants of every kind, one after the other in the same copy.
func TestVerdicts(t *testing.T) {
	tree(t, map[string]string{
		"testdata/mutants/a/caught.diff":   header + diff("return a - b"),
		"testdata/mutants/a/panics.diff":   header + diff("panic(a)"),
		"testdata/mutants/a/survives.diff": strings.Replace(header, "TestSum|TestSum2", "TestZero", 1) + diff("return a - b"),
		"testdata/mutants/a/compiles.diff": header + diff("return c"),
		"testdata/mutants/a/applies.diff":  header + strings.Replace(diff("return 1"), "-func Sum", "-func Sam", 1),
		".tmp/mutants/a/left_test.go":      "package b\n", // of a file that is gone now
		".tmp/mutants/a/a.go":              "package a\n", // of a run that was interrupted
	})
	var out bytes.Buffer
	err := run("", "", &out)
	for _, want := range []string{
		"passes .* s  ./a\n", "caught .* s  a/caught: Sums are exact.\n", "caught .* a/panics", "SURVIVED .* a/survives",
		"does not compile .* a/compiles(.*\n)*.*undefined: c", "does not apply .* a/applies(.*\n)*error: patch failed", "2 of 5 caught",
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if err == nil || !strings.HasPrefix(err.Error(), "1 SURVIVED, 1 does not apply, 1 does not compile") {
		t.Errorf("error %v", err)
	}
	if text, _ := os.ReadFile("a/a.go"); !strings.Contains(string(text), "a + b") {
		t.Error("the work tree was changed")
	}
	out.Reset()
	if err := run("a", "a/c*t", &out); err != nil || !strings.Contains(out.String(), "1 of 1 caught") {
		t.Errorf("one that is caught: %v\n%s", err, out.String())
	}
}

// What is said before any mistake is made.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ name, text, only, want string }{
		{"no header", diff("return 1"), "", `no line "# <the guarantee`},
		{"no sentence", "# package: ./a\n# test: TestSum\n" + diff("return 1"), "", `no line "# <the guarantee`},
		{"no package", "# Sums.\n# test: TestSum\n" + diff("return 1"), "", `no line "# package: ./..."`},
		{"no test", "# Sums.\n# package: ./a\n" + diff("return 1"), "", `no line "# test: Test..."`},
		{"other line", "# Sums.\n# package: ./a\n# tests: TestSum\n" + diff("return 1"), "", `"# tests: TestSum"`},
		{"pattern", "# Sums.\n# package: ./a\n# test: Test(\n" + diff("return 1"), "", `test "Test("`},
		{"no diff", header, "", `no line "diff --git"`},
		{"nothing", header + diff("return 1"), "other", `ONLY="other"; areas: a`},
		{"no such test", strings.Replace(header, "TestSum2", "TestSum3", 1) + diff("return 1"), "", "./a has no test TestSum3"},
		{"test fails", header + strings.Replace(diff("return 1"), "+b", "-b", 1), "broken", "./a without a mutant"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree(t, map[string]string{"testdata/mutants/a/broken.diff": c.text})
			if c.name == "test fails" {
				testkit.WriteTree(t, map[string]string{"a/a.go": "package a\n\nfunc Sum(a, b int) int { return 0 }\n"})
			}
			var out bytes.Buffer
			if err := run("", c.only, &out); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %s", err, c.want)
			}
			if strings.Contains(out.String(), "caught") {
				t.Errorf("tried:\n%s", out.String())
			}
		})
	}
}

func TestJudge(t *testing.T) {
	for out, want := range map[string]verdict{
		"panic: test timed out after 5m\n--- FAIL: TestSum": hung,
		"fatal error: all goroutines are asleep":            caught,
		"FAIL\tm/a [build failed]":                          noCompile,
		"signal: killed\nFAIL\tm/a":                         noFailure,
	} {
		if got := judge(out, os.ErrInvalid); got != want {
			t.Errorf("%q: %s, want %s", out, got, want)
		}
	}
	if got := judge("testing: warning: no tests to run", nil); got != noTest {
		t.Errorf("no test: %s", got)
	}
}

func TestPattern(t *testing.T) {
	m := mutant{test: "TestA/b c|d"}
	if got := m.pattern(); got != "^(TestA)$/^(b c|d)$" {
		t.Error(got)
	}
}

// The mutants of this repository apply, and the tests that they name are there.
func TestMutantsApply(t *testing.T) {
	t.Chdir("../../..")
	all, err := readAll(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if out, err := exec.Command("git", "apply", "--check", m.file).CombinedOutput(); err != nil {
			t.Errorf("%s does not apply: make the mistake anew: %s", m.name, out)
		}
		sources, _ := filepath.Glob(filepath.Join(m.module, m.pkg, "*_test.go"))
		diff, err := os.ReadFile(m.file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(diff)) {
			// Read here, a change of it outdates what go test has kept of this test: it does not
			// know what git reads.
			if changed, ok := strings.CutPrefix(line, "+++ b/"); ok {
				sources = append(sources, strings.TrimSpace(changed))
			}
		}
		var text strings.Builder
		for _, source := range sources {
			b, err := os.ReadFile(source)
			if err != nil {
				t.Fatal(err)
			}
			text.Write(b)
		}
		for _, name := range m.tests() {
			if !regexp.MustCompile("(?m)^func " + strings.Trim(name, "^$") + `\(`).MatchString(text.String()) {
				t.Errorf("%s: %s has no %s", m.name, m.pkg, strings.Trim(name, "^$"))
			}
		}
	}
}
