package descriptor

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fastlimit/fastlimit/internal/mistake"
)

// Limit is what applies to a request. It is immutable.
type Limit struct {
	Path      string // domain and steps, joined by dots
	Steps     []string
	Requests  uint32 // admitted in each window; 0 admits none
	Unit      Unit
	Unlimited bool // Requests and Unit mean nothing
	Shadow    bool
	Quota     bool
	Detailed  bool // see Descriptor.DetailedMetric
	Name      string
	Replaces  []string
	// Metadata holds null, bool, float64 and string, and lists ([]any) and maps
	// (map[string]any) of them, as JSON does.
	Metadata map[string]any
}

// Limits are the trees of all domains. They are immutable, and safe for concurrent use.
type Limits struct {
	domains map[string]*node
	limits  int
}

// node is a descriptor with its children.
type node struct {
	children  map[string]*node // by step
	wildcards []wildcard       // those of children that are one, in the order of the file
	limit     *Limit
	step      string
	byValue   bool // ValueToMetric
	shared    bool // ShareThreshold
}

// wildcard is a step with "*" and what stands between those.
type wildcard struct {
	parts [][]byte
	node  *node
}

// New builds the trees. Configurations of one domain are an error unless they are to be
// merged. All errors are reported, in the order of the configurations, and then Limits is
// nil.
func New(configs []Config, merge bool) (*Limits, mistake.Errors) {
	b := builder{limits: &Limits{domains: map[string]*node{}}}
	for i := range configs {
		b.config(&configs[i], merge)
	}
	if len(b.errs) > 0 {
		return nil, b.errs
	}
	return b.limits, nil
}

// Domains returns how many domains there are.
func (l *Limits) Domains() int { return len(l.domains) }

// Len returns how many limits there are.
func (l *Limits) Len() int { return l.limits }

// builder builds trees and collects the errors of one configuration after the other.
type builder struct {
	limits *Limits
	file   string
	errs   mistake.Errors
}

func (b *builder) fail(p Place, path, wrong, fix string) {
	b.errs = append(b.errs, &mistake.Error{File: b.file, Line: p.Line, Column: p.Column, Setting: path, Problem: wrong, Fix: fix})
}

func (b *builder) config(c *Config, merge bool) {
	b.file = c.Name
	if c.Domain == "" {
		b.fail(c.Place, "domain", "is missing or empty", "write the domain that Envoy sends")
		return
	}
	root := b.limits.domains[c.Domain]
	if root != nil && !merge {
		b.fail(c.Place, "domain", fmt.Sprintf("%q is in another file too", c.Domain), "join the files, or set MERGE_DOMAIN_CONFIG=true")
		return
	}
	if root == nil {
		root = &node{}
		b.limits.domains[c.Domain] = root
	}
	b.children(root, c.Domain, nil, c.Descriptors)
}

// children adds the descriptors below a node. path and steps lead to the node.
func (b *builder) children(parent *node, path string, steps []string, all []Descriptor) {
	for i := range all {
		d := &all[i]
		if d.Key == "" {
			b.fail(d.Place, path, "a descriptor without key", "write the key that Envoy sends")
			continue
		}
		n := &node{step: d.step(), byValue: d.ValueToMetric, shared: d.ShareThreshold}
		path, steps := path+"."+n.step, append(slices.Clip(steps), n.step)
		if parent.children[n.step] != nil {
			b.fail(d.Place, path, "a second descriptor of this key and value", "join the two")
			continue
		}
		if d.ShareThreshold && !wild(n.step) {
			b.fail(d.Place, path, "share_threshold without a wildcard", `write a value with "*", or remove share_threshold`)
		}
		if d.Limit != nil {
			n.limit = b.limit(d, path, steps)
		}
		parent.add(n)
		b.children(n, path, steps, d.Descriptors)
	}
}

func (n *node) add(child *node) {
	if n.children == nil {
		n.children = map[string]*node{}
	}
	n.children[child.step] = child
	if wild(child.step) {
		n.wildcards = append(n.wildcards, wildcard{bytes.Split([]byte(child.step), []byte("*")), child})
	}
}

// limit checks the limit of a descriptor and returns it.
func (b *builder) limit(d *Descriptor, path string, steps []string) *Limit {
	p := d.Limit
	switch {
	case p.Unlimited && p.Unit.Valid():
		b.fail(p.Place, path, "unlimited and a unit", "remove one of the two")
	case !p.Unlimited && !p.Unit.Valid():
		b.fail(p.Place, path, fmt.Sprintf("unknown unit %q", cmp.Or(p.UnitText, p.Unit.String())),
			"want second, minute, hour, day, week, month or year, or unlimited: true")
	}
	for _, name := range p.Replaces {
		switch name {
		case "":
			b.fail(p.Place, path, "replaces a limit without name", "write the name of the limit to replace")
		case p.Name:
			b.fail(p.Place, path, fmt.Sprintf("replaces itself, %q", name), "write the name of another limit")
		}
	}
	b.limits.limits++
	return &Limit{
		Path: path, Steps: steps, Requests: p.Requests, Unit: p.Unit, Unlimited: p.Unlimited, Shadow: d.Shadow, Quota: d.Quota,
		Detailed: d.DetailedMetric, Name: p.Name, Replaces: p.Replaces, Metadata: d.Metadata,
	}
}

// Each calls f for every limit, with its domain.
func (l *Limits) Each(f func(domain string, limit *Limit)) {
	for domain, root := range l.domains {
		root.each(func(x *Limit) { f(domain, x) })
	}
}

func (n *node) each(f func(*Limit)) {
	if n.limit != nil {
		f(n.limit)
	}
	for _, child := range n.children {
		child.each(f)
	}
}

// String lists the limits as envoyproxy/ratelimit does at /rlconfig, sorted.
func (l *Limits) String() string {
	var b strings.Builder
	for _, domain := range sortedKeys(l.domains) {
		l.domains[domain].list(&b)
	}
	return b.String()
}

func (n *node) list(b *strings.Builder) {
	if x := n.limit; x != nil {
		unit := "UNKNOWN"
		if x.Unit.Valid() {
			unit = strings.ToUpper(x.Unit.String())
		}
		fmt.Fprintf(b, "%s: unit=%s requests_per_unit=%d, shadow_mode: %t, quota_mode: %t\n", x.Path, unit, x.Requests, x.Shadow, x.Quota)
	}
	for _, step := range sortedKeys(n.children) {
		n.children[step].list(b)
	}
}
