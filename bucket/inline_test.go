package bucket

import (
	"os/exec"
	"strings"
	"testing"
)

// TestInlining: a decision is some tens of ns, and a call that is not inlined
// costs one or two of them. The compiler says what it can inline.
func TestInlining(t *testing.T) {
	t.Parallel()
	for _, pkg := range []struct {
		path string
		why  map[string]string // function → where it is on the path of a request
	}{
		{"github.com/fastlimit/fastlimit/bucket", map[string]string{
			"Level":               "in Fits and all that tells a client how long to wait",
			"Add":                 "in Take, under the lock",
			"Sub":                 "in Table.Refund, under the lock",
			"(*Shape).Ticks":      "once for each request",
			"(*Shape).Cost":       "once for each request",
			"(*Shape).Fits":       "the verdict, made for each request by reading alone",
			"(*Shape).Duration":   "twice for each denial",
			"(*Shape).Over":       "once for each denial",
			"(*Table).LookupSet":  "once for each request",
			"(*Table).ProbeFirst": "once for each request of a suspect",
			"(*Table).index":      "once for each lookup",
			"(*Table).other":      "once for each lookup of a client whose home has spilled, often in a search",
			"(*Table).awayOf":     "in hold, under the lock",
			"(*Table).lock":       "once for each take",
			"(*entry).of":         "in ProbeFirst and ProbeRest",
			"(*entry).store":      "in Take, under the lock",
		}},
		{"github.com/fastlimit/fastlimit/sketch", map[string]string{
			"level":               "three times for each estimate",
			"mask":                "once for each mark and look",
			"(*Leaky).block":      "once for each charge and estimate",
			"(*Blooms).word":      "once for each mark and look",
			"(*Blooms).Has":       "the previous generation, for each new client",
			"(*talkerSet).find":   "twice for each hit that is counted by name",
			"(*TopTalkers).AddTo": "once for each hit of a client with a slot",
			"(*TopTalkers).index": "once for each lookup by name",
			"(*Hasher).Word4":     "the digest of an IPv4 client",
			"(*Hasher).Word6":     "the digest of an IPv6 client",
			"mark":                "once for each client that the table does not turn away",
		}},
		{"github.com/fastlimit/fastlimit/window", map[string]string{
			"(*Filter).FirstSeen": "once for each client that the table does not turn away",
		}},
		{"github.com/fastlimit/fastlimit/internal/clock", map[string]string{
			"(*Clock).Now":    "once for each request",
			"(*Clock).Follow": "once for each request that reads the machine's clock",
			"(*Clock).Late":   "once for each denial",
		}},
		{"github.com/fastlimit/fastlimit/internal/exact", map[string]string{
			"(*Buckets).Ticks":       "once for each request of several rules",
			"(*Buckets).SketchTicks": "once for each request that the table does not turn away",
			"(*Buckets).MayDeny":     "once for each denial of several rules",
		}},
		{"github.com/fastlimit/fastlimit", map[string]string{
			"(*Rule).Allow":      "once for each request, like the next ones",
			"(*Rule).Take":       "",
			"(*Rule).AddrKey":    "",
			"(*Rule).BytesKey":   "",
			"(*Limiter).TakeAll": "",
		}},
		{"github.com/fastlimit/fastlimit/internal/engine", map[string]string{
			"(*counters).record": "once for each request",
			"stackStripe":        "once for each request",
			"Key.digest":         "once for each request",
			"(*Rule).check":      "once for each request",
		}},
	} {
		out, err := exec.Command("go", "build", "-gcflags="+pkg.path+"=-m", pkg.path).CombinedOutput()
		if err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
		can := map[string]bool{}
		for line := range strings.Lines(string(out)) {
			if _, name, ok := strings.Cut(line, "can inline "); ok {
				can[strings.TrimSpace(name)] = true
			}
		}
		for name, why := range pkg.why {
			if !can[name] {
				t.Errorf("%s: %s is not inlined; it is %s", pkg.path, name, why)
			}
		}
	}
}
