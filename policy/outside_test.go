package policy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Somebody outside of the module can build what the examples show, with the
// middlewares around it.
func TestBuildsOutsideOfTheModule(t *testing.T) {
	t.Parallel()
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	program := strings.Replace(string(examples), "package policy_test", "package main", 1)
	program = strings.Replace(program, "import (", `import (
	"github.com/fastlimit/fastlimit/middleware/nethttp"
	fasthttplimit "github.com/fastlimit/fastlimit/middleware/fasthttp"
	"github.com/valyala/fasthttp"`, 1)
	buildOutside(t, program+`
func main() {
	ExampleIdentity_ClientString()
	ExampleLists()
	ExampleEngine()
	clients := new(policy.Identity)
	apiKey := func(rule *fastlimit.Rule) func(*fasthttp.RequestCtx) (fastlimit.Key, bool) {
		return func(ctx *fasthttp.RequestCtx) (fastlimit.Key, bool) { return rule.BytesKey(ctx.Path()), true }
	}
	lim, _ := fastlimit.New(fastlimit.Config{})
	rule, _ := lim.Rule("")
	a, _ := nethttp.New(nethttp.Config{Limits: []nethttp.Limit{{Rule: rule}}, Clients: clients, OnDeny: func(w http.ResponseWriter, _ *http.Request, v *nethttp.Verdict) { v.Write(w) }})
	b, _ := fasthttplimit.New(fasthttplimit.Config{Limits: []fasthttplimit.Limit{{Rule: rule, Key: apiKey(rule)}}, Clients: clients})
	a.Wrap(nil)
	b.Wrap(nil)
}
`)
}

// buildOutside compiles and links a main package in a module of its own, which replaces
// this module by the tree under test. What the program needs, this module needs too.
func buildOutside(t *testing.T, program string) {
	t.Helper()
	root := tree(t)
	dir := t.TempDir()
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/fastlimit/fastlimit"
	for name, text := range map[string]string{
		"main.go": program,
		"go.sum":  string(sums),
		"go.mod":  "module example.com/outside\n\ngo 1.26.0\n\nrequire " + module + " v0.0.0\n\nreplace " + module + " => " + root + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "program"), ".")
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("a program outside of the module does not build: %v\n%s", err, out)
	}
}

// tree is the root of this module.
func tree(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(strings.TrimSpace(string(out)))
}
