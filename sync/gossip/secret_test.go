package gossip

import (
	"encoding/hex"
	"testing"
)

// Keys are those of RFC 5869, computed apart from this code, and differ by
// everything that goes in.
func TestSecrets(t *testing.T) {
	t.Parallel()
	limiter := LimiterSecret("test", testSecret)
	gossip := gossipKey("test", testSecret)
	for got, want := range map[string]string{
		hex.EncodeToString(limiter[:]): "ac5c9c3fc560fae4c2f575620f58287de5120bdc2ac16370db7bc0771b44ebb0",
		hex.EncodeToString(gossip):     "fc8b916c77dd6c97325f287e057549471a53c402f2a52a6babf431626e73bcfb",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	seen := map[string]bool{string(limiter[:]): true, string(gossip): true}
	for _, c := range [][2]string{{"tesu", testSecret}, {"test", testSecret + "!"}, {"testc", testSecret[1:]}} {
		l, g := LimiterSecret(c[0], c[1]), string(gossipKey(c[0], c[1]))
		if seen[g] || seen[string(l[:])] {
			t.Errorf("%q: a key that another one has", c)
		}
		seen[g], seen[string(l[:])] = true, true
	}
	if len(seen) != 8 {
		t.Errorf("%d keys", len(seen))
	}
}
