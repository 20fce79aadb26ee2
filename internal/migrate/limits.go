package migrate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/migrate/nginxconf"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/policy"
)

// limits translates what stands in b and below it.
func (m *migration) limits(b *block) {
	for _, d := range b.reqs {
		m.limitReq(b, d)
	}
	for _, d := range b.conns {
		m.limitConn(b, d)
	}
	for _, in := range b.inner {
		m.limits(in)
	}
}

// applied is a limit_req with its arguments read.
type applied struct {
	zone   string
	burst  int
	atOnce int // of the burst; the rest waits for its turn
}

// waiting is how many requests of a client may wait.
func (a *applied) waiting() int { return a.burst - min(a.atOnce, a.burst) }

// limit sets what holds by the zone's rate: nginx's burst is what it admits beyond the request
// that is just on time. waits reports whether those that nginx makes wait do so here too: not if
// they would for longer than a rule lets them.
func (a *applied) limit(r *fastlimit.RuleConfig) (waits bool) {
	n := a.waiting()
	most := time.Duration(math.Ceil(float64(n)/r.Rate.PerSecond()*1000)) * time.Millisecond
	if n == 0 || n > limit.MaxWaiters || most > limit.MaxMaxWait {
		r.Burst = uint64(a.burst) + 1
		return false
	}
	r.Burst, r.MaxWait = uint64(a.burst-n)+1, most
	return true
}

// maxBurst is nginx's: it counts in thousandths of a request in 32 bits.
const maxBurst = 1<<31/1000 - 1

// readLimitReq reads a limit_req, and says what is wrong with one that nginx would
// refuse. Arguments may be in any order.
func readLimitReq(d *nginxconf.Directive) (a applied, problem string) {
	for _, arg := range d.Args {
		name, value, _ := strings.Cut(arg, "=")
		ok := true
		switch name {
		case "zone":
			a.zone = value
		case "burst":
			a.burst, ok = number(value, maxBurst)
		case "nodelay":
			a.atOnce = maxBurst
		case "delay":
			a.atOnce, ok = number(value, maxBurst)
		default:
			ok = false // perhaps of a newer version: the limit may mean something else
		}
		if !ok {
			return a, arg + " is unknown"
		}
	}
	if a.zone == "" {
		return a, "has no zone=NAME"
	}
	return a, ""
}

// limitReq makes a rule of a limit_req, or a note of why there is none.
func (m *migration) limitReq(b *block, d *nginxconf.Directive) {
	if len(d.Args) == 1 && d.Args[0] == "off" { // of newer versions: no limit here
		return
	}
	a, problem := readLimitReq(d)
	z := m.zones[a.zone]
	switch {
	case problem != "":
	case z == nil:
		problem = "there is no limit_req_zone of that name"
	case z.problem != "":
		problem = fmt.Sprintf("zone %s at %s: %s", z.name, z.place, z.problem)
	default:
		problem = b.unmatched
	}
	waits := false
	rule := Rule{zone: z, blocks: []*block{b}, From: []string{d.Place() + ": " + text(d)}}
	if problem == "" {
		rule.Key, rule.Match = z.key, policy.Match{Hosts: b.hosts, Paths: b.paths}
		rule.Limit = fastlimit.RuleConfig{Name: "r", Rate: z.rate}
		waits = a.limit(&rule.Limit)
		if b.shadow() {
			rule.Limit.Mode = fastlimit.Shadow
		}
		// The limiter knows best which rates it can keep; the name comes later.
		if _, err := fastlimit.NewPlan(fastlimit.Config{Rules: []fastlimit.RuleConfig{rule.Limit}}); err != nil {
			problem = err.Error()
		}
	}
	if problem != "" {
		m.lose(d.Place(), "%s: %s", text(d), problem)
		return
	}
	for _, n := range z.notes {
		m.note(z.place, "zone %s: %s", z.name, n)
	}
	switch {
	case waits:
		m.r.PerKey = max(m.r.PerKey, a.waiting())
	case a.waiting() > 0:
		m.note(d.Place(), "%s: nginx makes requests within the burst wait for their turn; here they are admitted at once, as the longest wait is %v", text(d), limit.MaxMaxWait)
	}
	m.r.Rules = append(m.r.Rules, rule)
}

// limitConn translates a limit by address for all requests, the only one that a
// listener has.
func (m *migration) limitConn(b *block, d *nginxconf.Directive) {
	problem, n := "", 0
	if len(d.Args) == 2 {
		n, _ = number(d.Args[1], 1<<24)
	}
	z := m.conns[first(d.Args)]
	switch {
	case n < 1:
		problem = "want a zone and a number from 1 to 16777216"
	case z == nil:
		problem = "there is no limit_conn_zone of that name"
	case z.problem != "":
		problem = fmt.Sprintf("zone %s at %s: %s", z.name, z.place, z.problem)
	case len(z.key) != 1 || z.key[0].Kind != policy.KeyIP:
		problem = "connections are limited by client address only"
	case len(b.hosts)+len(b.paths) > 0 || b.unmatched != "":
		problem = "connections are limited for all hosts and paths together, by max_per_client"
	case m.r.MaxPerClient > 0 && m.r.MaxPerClient != n:
		problem = fmt.Sprintf("there is only one such limit, already set by %s", m.r.maxPlace)
	}
	if problem != "" {
		m.lose(d.Place(), "%s: %s", text(d), problem)
		return
	}
	m.r.MaxPerClient, m.r.maxPlace = n, d.Place()
	m.note(d.Place(), "%s: nginx counts connections with a request in progress, max_per_client all that are open, and IPv6 clients by their /64", text(d))
	m.noteOtherConns(b, d)
}

// noteOtherConns names the blocks in b that have limit_conn of their own, in which
// nginx does not apply that of b.
func (m *migration) noteOtherConns(b *block, d *nginxconf.Directive) {
	for _, in := range b.inner {
		if len(in.conns) > 0 && !slices.ContainsFunc(in.conns, func(c *nginxconf.Directive) bool { return first(c.Args) == first(d.Args) }) {
			m.note(in.conns[0].Place(), "%s: max_per_client of %s counts these connections too; in nginx this limit replaces it", text(in.conns[0]), d.Place())
		}
		m.noteOtherConns(in, d)
	}
}

// first is the first argument, or nothing.
func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// merge joins rules of one zone and burst, whose clients nginx counts together: what
// only differs in hosts, or only in paths, is one rule; one that another covers is
// none.
func (m *migration) merge(rules []Rule) (kept []Rule) {
	for _, r := range rules {
		if !mergeInto(kept, &r) {
			kept = append(kept, r)
		}
	}
	// What is left of a zone that several rules are from counts apart from now on.
	for i := range kept {
		for j := range i {
			if kept[i].zone == kept[j].zone {
				m.note(place(&kept[i]), "nginx counts these requests of a client and those of %s together, in zone %s; here each has its own limit",
					place(&kept[j]), kept[i].zone.name)
				break
			}
		}
	}
	return kept
}

// place is that of the first directive of a rule.
func place(r *Rule) string {
	at, _, _ := strings.Cut(r.From[0], ": ")
	return at
}

// mergeInto adds the requests of r to a rule of kept, if one can take them in, and
// reports whether it has. Hosts and paths are matched independently, so a rule for
// two hosts, each with paths of its own, would be for all four pairs.
func mergeInto(kept []Rule, r *Rule) bool {
	for i := range kept {
		k := &kept[i]
		if k.zone != r.zone || k.Limit.Burst != r.Limit.Burst || k.Limit.MaxWait != r.Limit.MaxWait || k.Limit.Mode != r.Limit.Mode {
			continue
		}
		a, b := &k.Match, &r.Match
		switch {
		case slices.Equal(a.Hosts, b.Hosts) && len(a.Paths) > 0 && len(b.Paths) > 0:
			a.Paths = distinct(slices.Concat(a.Paths, b.Paths))
		case slices.Equal(a.Paths, b.Paths) && len(a.Hosts) > 0 && len(b.Hosts) > 0:
			a.Hosts = distinct(slices.Concat(a.Hosts, b.Hosts))
		case within(a.Hosts, b.Hosts) && covers(a.Paths, b.Paths):
		default:
			continue
		}
		k.From, k.blocks = append(k.From, r.From...), append(k.blocks, r.blocks...)
		return true
	}
	return false
}

// within tells whether hosts a are all of b.
func within(a, b []string) bool {
	if len(a) == 0 {
		return true
	}
	return len(b) > 0 && !slices.ContainsFunc(b, func(h string) bool { return !slices.Contains(a, h) })
}

// noteOverlaps names the blocks that a rule applies to where nginx does not: all
// rules that match apply here, while there a block that has limits inherits none, and
// a request is in one location only.
func (m *migration) noteOverlaps(root *block) {
	var all []*block // outer before inner
	var add func(*block)
	add = func(b *block) {
		all = append(all, b)
		for _, in := range b.inner {
			add(in)
		}
	}
	add(root)
	for i := range m.r.Rules {
		r := &m.r.Rules[i]
		for _, b := range all {
			// Requests that no pattern describes are in no rule's way, as far as can be said.
			if b.d == nil || b.unmatched != "" || !within(r.Match.Hosts, b.hosts) || !covers(r.Match.Paths, b.paths) || r.governs(b) {
				continue
			}
			if p := b.parent; p.d != nil && p.d.Name != "http" && within(r.Match.Hosts, p.hosts) && covers(r.Match.Paths, p.paths) && !r.governs(p) {
				continue // told of the block around it
			}
			m.note(b.d.Place(), "%s: the rule of %s applies to these requests too; nginx has other limits for them, or none", text(b.d), place(r))
		}
	}
}

// governs tells whether nginx applies a rule's zone in a block, or the block has
// others in it that do.
func (r *Rule) governs(b *block) bool {
	for _, d := range b.effective() {
		if a, _ := readLimitReq(d); a.zone == r.zone.name {
			return true
		}
	}
	return slices.ContainsFunc(r.blocks, func(own *block) bool {
		for ; own != nil; own = own.parent {
			if own == b {
				return true
			}
		}
		return false
	})
}
