package config

import (
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/safetext"
	"github.com/fastlimit/fastlimit/policy"
)

// Describe explains, in lines for people, how the memory is shared out, how much
// traffic each rule carries and by how much a client can exceed its limit. p is the
// plan of c.Limiter().
func Describe(c *Config, p *fastlimit.Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "memory %s, of which %s used\n", size(c.Limits.Memory), size(p.Memory))
	if p.Window > 0 {
		filter := p.Memory // less what the rules take
		for i := range p.Rules {
			filter -= p.Rules[i].Bytes
		}
		for i := range p.Rules {
			filter -= overrideBytes(&c.Policy.Rules[i], &p.Rules[i])
		}
		fmt.Fprintf(&b, "first-seen filter %s: remembers %s clients for %s\n", size(filter), count(float64(p.Clients)), roughly(p.Window))
	} else {
		b.WriteString("first-seen filter: none, no rule can use it\n")
	}
	describeTables(&b, p)
	if c.Limits.TopTalkers > 0 {
		fmt.Fprintf(&b, "top talkers: %d clients of each rule, %s\n", c.Limits.TopTalkers, size(talkerBytes(len(p.Rules), c.Limits.TopTalkers)))
	}
	describeLogs(&b, c, p)
	if w := c.Limits.Wait; c.WaitMemory() > 0 {
		fmt.Fprintf(&b, "waiting: at most %d requests, %d for each client of a rule, %s beside memory\n", w.Total, w.PerKey, size(c.WaitMemory()))
	}
	describeOverrides(&b, c, p)
	describeLists(&b, c)
	describeBans(&b, c, p)
	describeKernel(&b, c)
	b.WriteByte('\n')
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "rule\tlimit\tmode\tmemory\tsketch\tbuckets\tcarries\ta client gets at most")
	for i := range p.Rules {
		describeRule(w, &p.Rules[i])
	}
	w.Flush() // to a strings.Builder, which never fails
	if c.Cluster != nil {
		describeCluster(&b, c, p)
	}
	return b.String()
}

// describeTables explains the column of buckets that follows, with the worst chance of
// an overflow among the rules. Below 10^-30 the number would mean nothing.
func describeTables(b *strings.Builder, p *fastlimit.Plan) {
	overflow := 0.0
	for i := range p.Rules {
		overflow = max(overflow, p.Rules[i].Overflow)
	}
	fmt.Fprintf(b, "buckets: how many suspects can be limited at a time; at the traffic that a rule carries, half of them are in use,\n"+
		"and the chance that a suspect finds none free is below 1 in 10^%.0f\n", min(30, math.Floor(-math.Log10(overflow))))
}

// describeLogs says for each rule that keeps a log what it takes for each client, which is
// why there are so few buckets: all that its table takes, shared out among them.
func describeLogs(b *strings.Builder, c *Config, p *fastlimit.Plan) {
	for i := range p.Rules {
		if rp := &p.Rules[i]; rp.Logged() {
			table := rp.Bytes - rp.BanBytes - 8*int64(rp.Cells) - talkerBytes(1, rp.TopTalkers)
			fmt.Fprintf(b, "log of rule %s: %s for each bucket, with the times of up to %d units\n", rp.Config.Name, size(table/int64(rp.Buckets)), rp.Config.Rate.N)
		}
	}
}

// overrideBytes is what the overrides of a rule take: to look them up, and the tables of
// their limits.
func overrideBytes(spec *policy.RuleSpec, rp *fastlimit.RulePlan) int64 {
	n := spec.OverrideMemory()
	for i := range rp.Tiers {
		n += rp.Tiers[i].Bytes
	}
	return n
}

// describeOverrides says for each rule with overrides how many there are, and what they
// take of the memory.
func describeOverrides(b *strings.Builder, c *Config, p *fastlimit.Plan) {
	for i := range p.Rules {
		spec, rp := &c.Policy.Rules[i], &p.Rules[i]
		if n := len(spec.Overrides); n > 0 {
			fmt.Fprintf(b, "overrides of rule %s: %d, with %d different limits, %s\n", rp.Config.Name, n, len(rp.Tiers), size(overrideBytes(spec, rp)))
		}
	}
}

// describeLists says how long the lists are, if files have a part of them.
func describeLists(b *strings.Builder, c *Config) {
	if len(c.Lists.Files) == 0 {
		return
	}
	fmt.Fprintf(b, "lists: %d entries of allow, %d of deny, at most %s beside memory", len(c.Policy.Allow), len(c.Policy.Deny), size(c.ListMemory()))
	for i := range c.Lists.Files {
		f := &c.Lists.Files[i]
		fmt.Fprintf(b, "%s %d from %s", [...]string{";", ","}[min(i, 1)], len(f.Prefixes), safetext.Clip(f.Path, maxQuoted))
	}
	b.WriteByte('\n')
}

// Lag is L in the bound of a cluster: a count waits up to one interval to be sent,
// and is charged within the next.
func (c *Cluster) Lag() time.Duration { return 2 * c.Interval }

// Bound is the most that all nodes together admit of one client of a rule, as text.
func (c *Cluster) Bound(rp *fastlimit.RulePlan) string {
	if rp.Config.Algorithm.Periodic() {
		return inPeriod(rp.ClusterWindow(), &rp.Config)
	}
	rate, burst := rp.ClusterBound(c.Lag())
	return fmt.Sprintf("%d at once, then %.4g/s", burst, rate)
}

// describeCluster prints, for each rule, the bound on a client that spreads its
// requests over max_nodes nodes, however many are up.
func describeCluster(b *strings.Builder, c *Config, p *fastlimit.Plan) {
	n := c.Cluster.MaxNodes
	fmt.Fprintf(b, "\ncluster %s: up to %d nodes, the top %d clients of each rule are exchanged\n", c.Cluster.Name, n, c.Cluster.TopTalkers)
	if c.Store() == nil {
		fmt.Fprintf(b, "the most that %d nodes together admit of a client, each on its own as there is no redis:\n", n)
	} else {
		fmt.Fprintf(b, "the most that %d nodes together admit of a client, if counts arrive within %v (two intervals); what the top talkers miss comes on top:\n",
			n, c.Cluster.Lag())
	}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for i := range p.Rules {
		fmt.Fprintf(w, "%s\t%s\n", p.Rules[i].Config.Name, c.Cluster.Bound(&p.Rules[i]))
	}
	w.Flush()
}

// describeRule is a row of the table. The rule is shown as planned, defaults filled in.
func describeRule(w *tabwriter.Writer, rp *fastlimit.RulePlan) {
	rc := &rp.Config
	sketch := "none"
	if rp.Cells > 0 {
		sketch = fmt.Sprintf("%d cells", rp.Cells)
	}
	fmt.Fprintf(w, "%s\t%s\t%v\t%s\t%s\t%d\t%s\t%s\n",
		rc.Name, Limit(rc), rc.Mode, size(rp.Bytes), sketch, rp.Buckets,
		perSecond(rp.RequestsPerSecond), AtMost(rp))
}

// Limit is the limit of a rule, defaults filled in, as text.
func Limit(rc *fastlimit.RuleConfig) string {
	switch {
	case rc.Algorithm == fastlimit.LeakyBucket:
		return fmt.Sprintf("%v burst %d", rc.Rate, rc.Burst)
	case rc.Algorithm.Periodic():
		return fmt.Sprintf("%v, %v", rc.Rate, rc.Algorithm)
	}
	return fmt.Sprintf("%v burst %d, %v", rc.Rate, rc.Burst, rc.Algorithm)
}

// AtMost is the most that one node admits of a client, as text.
func AtMost(rp *fastlimit.RulePlan) string {
	if rp.Config.Algorithm.Periodic() {
		return inPeriod(rp.MaxBurst(), &rp.Config)
	}
	return fmt.Sprintf("%d at once, then %v", rp.MaxBurst(), rp.Config.Rate)
}

// inPeriod is a bound on what a period holds, as text.
func inPeriod(most uint64, rc *fastlimit.RuleConfig) string {
	switch rc.Algorithm {
	case fastlimit.SlidingWindow:
		return fmt.Sprintf("%d in a sliding window", most)
	case fastlimit.SlidingLog:
		return fmt.Sprintf("%d in any %s", most, shortTime(rc.Rate.Per))
	}
	return fmt.Sprintf("%d in a window", most)
}

// size is a number of bytes in binary units.
func size(n int64) string { return scaled(float64(n), 1024, " B", " KiB", " MiB", " GiB", " TiB") }

// count is a number with k, M or G.
func count(v float64) string { return scaled(v, 1000, "", "k", "M", "G") }

// perSecond is per day what would be 0.0 per second.
func perSecond(v float64) string {
	if v < 0.05 {
		return count(86_400*v) + " requests/day"
	}
	return count(v) + " requests/s"
}

// scaled divides v by base until it is below or at the last unit, and rounds it to
// one digit after the point.
func scaled(v, base float64, units ...string) string {
	for v >= base && len(units) > 1 {
		v, units = v/base, units[1:]
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") + units[0]
}

// roughly rounds a time: to days, minutes or tenths of a second. It is for estimates;
// what the user has written is shown by shortTime.
func roughly(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.0f days", d.Hours()/24)
	case d >= time.Minute:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return d.Round(100 * time.Millisecond).String()
}
