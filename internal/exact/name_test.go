package exact

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
)

// No two clients of any rules share a bucket in a store, whatever the rules are called and the
// clients write.
func TestStoredNamesDiffer(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 8))
	alphabet := []string{":", "%", "3", "A", "{", "}", "7", "b", `"`, `\`, "x", ",", "#", "1::", "/64", ".", "\x00", "\xff", "ä", "2001:db8::/64", `:"`, "%3A"}
	text := func(most int) string {
		var b strings.Builder
		for range rng.IntN(most) {
			b.WriteString(alphabet[rng.IntN(len(alphabet))])
		}
		return b.String()
	}
	var rules []string
	for range 100 {
		rules = append(rules, text(5))
	}
	clients := map[string]string{}
	for range 200_000 {
		rule := rules[rng.IntN(len(rules))]
		var c Client
		var client string
		if rng.IntN(4) == 0 {
			a := netip.AddrFrom16([16]byte{0x20, 0x01, byte(rng.IntN(3)), byte(rng.IntN(3)), 15: 1})
			c.Prefix, _ = a.Prefix(64)
			client = fmt.Sprintf("%q %v", rule, c.Prefix)
		} else {
			c.Parts = make([][]byte, 1+rng.IntN(3)) // none is the same client as one that is empty
			for i := range c.Parts {
				c.Parts[i] = []byte(text(4 + 60*rng.IntN(2)))
			}
			client = fmt.Sprintf("%q %q", rule, c.Parts)
		}
		name := string(appendName(nil, rule, c))
		if other, ok := clients[name]; ok && other != client {
			t.Fatalf("%s and %s are both stored as %s", client, other, name)
		}
		if strings.ContainsAny(name, "{}") {
			t.Fatalf("%s is stored as %s: Redis Cluster would look between the braces", client, name)
		}
		clients[name] = client
	}
}
