package policy_test

import (
	"os"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit/outside"
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
	outside.Build(t, program+`
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
