package fastlimit

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/fastlimit/fastlimit/bucket"
)

// identityVersion is that of the digests, names and units exchanged.
const identityVersion = "fastlimit rule v2"

// identity is what makes a rule the limit that it is: who its clients are, and
// how much each may take. Where two rules differ in any of it, nodes do not
// exchange their counts ([Rule.Identity]). [Limiter.With] lets a rule take over the state
// of one that differs in the shape only. TestEveryRuleFieldIsClassified has each field of
// RuleConfig either change it or not.
type identity struct {
	name, keyKind          string
	ipv4Prefix, ipv6Prefix int
	shape                  bucket.Shape // without slack, which is a node's own
}

// identity is that of a rule whose settings are checked and complete.
func (c *RuleConfig) identity() identity {
	return identity{c.Name, c.KeyKind, c.IPv4Prefix, c.IPv6Prefix, c.shape()}
}

// Identity is a hash of all that two nodes must agree on to exchange counts of
// this rule: what a client is, how it is named and digested (the rule's name
// and [Config.Secret]), and its limit. θ, cost and mode may differ. It is for
// package sync/gossip.
func (r *Rule) Identity() uint64 {
	id := r.config.identity()
	probe := r.hasher.Bytes(nil) // tells secrets apart and gives none away
	b := []byte(identityVersion)
	for _, s := range []string{id.name, id.keyKind} {
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(s))), s...)
	}
	numbers := append(id.shape.Parameters(), uint64(id.ipv4Prefix), uint64(id.ipv6Prefix), probe.Pos, probe.ID)
	for _, v := range numbers {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint64(sum[:])
}
