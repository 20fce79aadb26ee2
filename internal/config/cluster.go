package config

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/server"
	"github.com/fastlimit/fastlimit/sync/gossip"
)

// Cluster is how this node reaches the others, and how much it tells them. TopTalkers
// is a field of the limiter, not of package gossip, but operators look for it here.
type Cluster struct {
	gossip.Config
	TopTalkers int // of each rule

	// AcceptRules has rules changed here that an operator changes on all nodes.
	AcceptRules bool
}

const (
	clusterExample = `write for example cluster: {name: edge, bind: "10.0.0.1:7946", join: ["10.0.0.2:7946"], secret_file: /etc/fastlimit/secret}`
	secretFix      = "set secret or secret_file; write the same random text on all nodes: openssl rand -base64 32 makes one"

	maxNodes = 1000
)

// clusterSettings fills config.Cluster, in which gossip.Config is embedded: a new knob of
// the cluster is a field there and a row here. The bounds on interval and max_bytes are
// those within which the bound on all nodes together is worth having.
var clusterSettings = section{
	name: "cluster", want: "settings: " + clusterExample, where: "in cluster, indented more than cluster",
	settings: []setting{
		{
			name: "name", field: "Name", value: nameOf(nameWant, nameRunes), required: "give all nodes the same one, for example name: edge",
			doc: "the same on all nodes, and in no other cluster",
		},
		{
			name: "bind", field: "Bind", value: address(), required: `write the address that the other nodes reach, for example bind: "10.0.0.1:7946"`,
			doc: "address at which the other nodes reach this one, by UDP and TCP",
		},
		{name: "join", field: "Join", value: listOf("list of addresses", `a list such as ["10.0.0.2:7946"]`, address()), shown: "none", doc: "nodes to contact at start; one that is up is enough"},
		{name: "secret", field: "Secret", value: anyText("text", schema{"type": []string{"string", "number"}}, "a secret of 16 characters or more"), required: secretFix, doc: "16 characters or more, the same on all nodes"},
		{name: "secret_file", field: "Secret", value: fileContent(), doc: "a file with the secret, to keep it out of the configuration"},
		{
			name: "interval", field: "Interval", def: "100ms", doc: "time between two exchanges",
			value: duration(20*time.Millisecond, 10*time.Second, "100ms", ": the longer it is, the more a client gains by sending to all nodes"),
		},
		{name: "node", field: "Node", value: nodeName(), shown: "where the others reach it", doc: "unique name of this node; if two nodes have the same one, the later one is not ready"},
		{
			name: "advertise", field: "Advertise", shown: "that of `bind`", doc: "address at which the other nodes reach this one, if not `bind`",
			value: text("IP address and port", "the IP address and port at which the other nodes reach this one, for example 10.0.0.1:7946"),
		},
		{
			name: "max_bytes", field: "MaxBytes", def: "16KiB", doc: "the most bytes sent to each other node per interval",
			value: byteSize(4<<10, 1<<20, "16KiB", "16KiB", ": this is what one node sends another at each interval"),
		},
		{name: "max_nodes", field: "MaxNodes", value: whole(number{least: 2, most: maxNodes, example: "32"}), def: "32", doc: "the largest number of nodes; beyond it only addresses in `join` are admitted"},
		{name: "top_talkers", field: "TopTalkers", value: whole(number{least: 4, most: limit.MaxTopTalkers, example: "8192"}), def: "8192", doc: "clients of each rule that are tracked individually"},
		{name: "ignore", field: "Ignore", value: listOf("list of names", "a list of nodes such as [edge-3]", nodeName()), shown: "none", doc: "nodes whose counts, bans and rule changes are ignored"},
		{name: "accept_bans", field: "AcceptBans", value: boolean(), def: "false", doc: "clients that another node bans are banned here too"},
		{name: "accept_rules", field: "AcceptRules", value: boolean(), def: "false", doc: "rules that another node changes on all nodes for a while change here too"},
	},
}

// clusterAlone is the section for a program that reads no other.
var clusterAlone = section{
	name: "file", want: "settings: " + clusterExample,
	settings: []setting{{name: "cluster", field: "Cluster", value: mapping(&clusterSettings), required: clusterExample}},
	check:    func(d *decoder, _ *node) { d.checkCluster() },
}

// nodeName is the name of a node, which is its address by default.
func nodeName() value { return nameOf(nameWant+", or host:port", nameRunes+":[]") }

// checkCluster has package gossip check the settings.
func (d *decoder) checkCluster() {
	if d.cfg.Cluster != nil {
		d.report("Cluster", d.cfg.Cluster.Validate())
	}
}

// checkClusterPort reports a port that is taken.
func (d *decoder) checkClusterPort() {
	if b := d.places["Cluster.Bind"]; b != nil && !b.failed {
		if other := d.cfg.Cluster.takenBy(&d.cfg.Server, d.machine.resolve); other != "" {
			d.fail(b, d.cfg.Cluster.Bind+" is already used by "+other, "give the cluster its own port, for example 7946")
		}
	}
}

// takenBy says which listener has the port of the cluster; "" if none does. The cluster has
// UDP too, which traffic could not collide with, but its streams need the TCP port of the
// same number.
func (c *Cluster) takenBy(s *server.Config, names resolver) string {
	if other := listenerAt(s.Listeners, c.Bind, names); other != "" {
		return "the listener " + other
	}
	if overlap(s.Admin, c.Bind, names) {
		return "admin"
	}
	return ""
}

// clusterWarnings are about settings that do less than they seem to.
func clusterWarnings(c *Config, warn warnFunc) {
	if c.Cluster == nil {
		return
	}
	if c.Store() == nil {
		warn("cluster: without redis or postgres each node enforces the limits separately: %d nodes admit up to %d times burst and rate; counts are exchanged for top talkers only",
			c.Cluster.MaxNodes, c.Cluster.MaxNodes)
	}
	if c.Cluster.AcceptBans && !c.anyRule(bans) {
		warn("cluster.accept_bans: no rule has a ban, so no ban of another node applies here; add ban to a rule, or remove it")
	}
}

// Lag is L in the bound of a cluster: a count waits up to one interval to be sent,
// and is charged within the next.
func (c *Cluster) Lag() time.Duration { return 2 * c.Interval }

// Bound is the most that all nodes together admit of one client of a rule, as text.
func (c *Cluster) Bound(rp *limit.RulePlan) string {
	if rp.Config.Algorithm.Periodic() {
		return inPeriod(rp.ClusterWindow(), &rp.Config)
	}
	rate, burst := rp.ClusterBound(c.Lag())
	return fmt.Sprintf("%d at once, then %.4g/s", burst, rate)
}

// describeCluster prints, for each rule, the bound on a client that spreads its
// requests over max_nodes nodes, however many are up.
func describeCluster(b *strings.Builder, c *Config, p *fastlimit.Plan) {
	if c.Cluster == nil {
		return
	}
	n := c.Cluster.MaxNodes
	fmt.Fprintf(b, "\ncluster %s: up to %d nodes, the top %d clients of each rule are exchanged\n", c.Cluster.Name, n, c.Cluster.TopTalkers)
	if c.Store() == nil {
		fmt.Fprintf(b, "the most that %d nodes together admit from a client, each deciding alone as there is no redis or postgres:\n", n)
	} else {
		fmt.Fprintf(b, "the most that %d nodes together admit from a client, if counts arrive within %v (two intervals); requests of clients that are not top talkers come on top:\n",
			n, c.Cluster.Lag())
	}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for i := range p.Rules {
		fmt.Fprintf(w, "%s\t%s\n", p.Rules[i].Config.Name, c.Cluster.Bound(&p.Rules[i]))
	}
	w.Flush()
}
