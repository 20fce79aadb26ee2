package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

// describeBans says for each rule that bans what clients may suffer from that, and for each
// that prefixes made what it counts.
func describeBans(b *strings.Builder, c *Config, p *fastlimit.Plan) {
	for i := range p.Rules {
		rp, spec := &p.Rules[i], &c.Policy.Rules[i]
		rc := &rp.Config
		who := "client"
		if place, made := spec.Origin(); made {
			who = "prefix"
			fmt.Fprintf(b, "rule %s: each %s is a client too, of all that rule %s counts there together\n", rc.Name, spec.Counted(), c.Policy.Rules[place].Limit.Name)
		}
		if !rc.Ban.Enabled() {
			continue
		}
		fmt.Fprintf(b, "bans of rule %s: a %s that is denied %s is refused for %s", rc.Name, who, often(&rc.Ban), shortTime(rc.Ban.For))
		if rc.Ban.Max > rc.Ban.For {
			fmt.Fprintf(b, ", each time twice as long, up to %s", shortTime(rc.Ban.Max))
		}
		if rc.Mode == fastlimit.Shadow {
			b.WriteString(", but for mode: shadow, in which this is only counted")
		}
		fmt.Fprintf(b, "; up to %d at once, %s\n", rp.Bans, size(rp.BanBytes))
	}
}

// often is how many denials a policy takes within which time, for people.
func often(p *fastlimit.BanPolicy) string {
	if p.After == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times within %s", p.After, shortTime(p.Within))
}

// Prefixes that are shorter than these hold the clients of several networks: a /16 of IPv4 and
// a /32 of IPv6 are what providers get.
const shortest4, shortest6 = 16, 32

// banWarnings are about who else suffers from a ban.
func banWarnings(spec *policy.RuleSpec, warn warnFunc) {
	tellsApart := func(part policy.KeyPart) bool {
		return part.Kind == policy.KeyIP || part.Kind == policy.KeyHeader || part.Kind == policy.KeyCookie
	}
	if spec.Limit.Ban.Enabled() && !slices.ContainsFunc(spec.Key, tellsApart) {
		warn("ban: the key does not tell clients apart, so a ban refuses everybody for whom the rule counts; remove it, or count by ip")
	}
	for _, of := range [...]struct {
		name     string
		lengths  []int
		shortest int
	}{{"v4", spec.Prefixes.V4, shortest4}, {"v6", spec.Prefixes.V6, shortest6}} {
		for _, n := range of.lengths {
			if n < of.shortest {
				warn("ban.prefixes.%s: a /%d holds the networks of many providers, which one attacker in it then has denied; write %d or more", of.name, n, of.shortest)
			}
		}
	}
}
