package config

import (
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fastlimit/fastlimit"
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
		fmt.Fprintf(&b, "first-seen filter %s: remembers %s clients for %s\n", size(filter), count(float64(p.Clients)), roughly(p.Window))
	} else {
		b.WriteString("first-seen filter: none, no rule can use it\n")
	}
	describeTables(&b, p)
	if c.Limits.TopTalkers > 0 {
		fmt.Fprintf(&b, "top talkers: %d clients of each rule, %s\n", c.Limits.TopTalkers, size(talkerBytes(len(p.Rules), c.Limits.TopTalkers)))
	}
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

// Lag is L in the bound of a cluster: a count waits up to one interval to be sent,
// and is charged within the next.
func (c *Cluster) Lag() time.Duration { return 2 * c.Interval }

// Bound is the most that all nodes together admit of one client of a rule, as text.
func (c *Cluster) Bound(rp *fastlimit.RulePlan) string {
	if rp.Windowed() {
		return fmt.Sprintf("%d in a window", rp.ClusterWindow())
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
	switch rc.Algorithm {
	case fastlimit.LeakyBucket:
		return fmt.Sprintf("%v burst %d", rc.Rate, rc.Burst)
	case fastlimit.FixedWindow:
		return fmt.Sprintf("%v, %v", rc.Rate, rc.Algorithm)
	}
	return fmt.Sprintf("%v burst %d, %v", rc.Rate, rc.Burst, rc.Algorithm)
}

// AtMost is the most that one node admits of a client, as text.
func AtMost(rp *fastlimit.RulePlan) string {
	if rp.Windowed() {
		return fmt.Sprintf("%d in a window", rp.MaxBurst())
	}
	return fmt.Sprintf("%d at once, then %v", rp.MaxBurst(), rp.Config.Rate)
}

// size is a number of bytes in binary units.
func size(n int64) string { return scaled(float64(n), 1024, " B", " KiB", " MiB", " GiB", " TiB") }

// count is a number with k, M or G.
func count(v float64) string { return scaled(v, 1000, "", "k", "M", "G") }

func perSecond(v float64) string { return count(v) + " requests/s" }

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
