package migrate

import (
	"slices"
	"strings"

	"github.com/fastlimit/fastlimit/internal/migrate/nginxconf"
	"github.com/fastlimit/fastlimit/policy"
)

// block is http, a server or a location, or the file itself, with what limits the
// requests that it takes. Directives are inherited as in nginx: all limits of a kind
// from the closest block that has one.
type block struct {
	d      *nginxconf.Directive // nil of the file
	parent *block
	inner  []*block

	reqs, conns []*nginxconf.Directive // its own
	dryRun      *nginxconf.Directive   // its own limit_req_dry_run

	hosts, paths []string // which requests; empty: all
	unmatched    string   // why it cannot be said which
}

// ignored are directives that change nothing about who is limited.
var ignored = []string{"limit_req_log_level", "limit_conn_log_level", "limit_req_zone", "limit_conn_zone", "limit_except"}

// walk builds the blocks below b.
func (m *migration) walk(b *block, all []nginxconf.Directive) {
	for i := range all {
		d := &all[i]
		switch d.Name {
		case "http":
			m.walk(m.enter(b, d), d.Block)
		case "server":
			if d.Braced { // else it is of an upstream
				s := m.enter(b, d)
				m.setHosts(s)
				m.walk(s, d.Block)
			}
		case "location":
			l := m.enter(b, d)
			l.setPaths()
			m.walk(l, d.Block)
		case "limit_req":
			b.reqs = append(b.reqs, d)
		case "limit_conn":
			b.conns = append(b.conns, d)
		case "limit_req_dry_run":
			b.dryRun = d
		case "limit_req_status":
			m.statuses = append(m.statuses, d)
		case "upstream", "types", "map", "geo": // their lines are no directives
		default:
			m.other(b, d)
		}
	}
}

// other names directives that limit something and are none of the above, and looks
// into blocks that have no meaning here.
func (m *migration) other(b *block, d *nginxconf.Directive) {
	switch {
	case d.Name == "limit_conn_status" || d.Name == "limit_conn_dry_run":
		m.lose(d.Place(), "%s: connections beyond a limit are closed, or answered with 503", text(d))
	case d.Name == "limit_rate" || d.Name == "limit_rate_after":
		m.lose(d.Place(), "%s: bandwidth is not limited here", text(d))
	case d.Name == "limit_zone" || strings.HasPrefix(d.Name, "limit_") && !slices.Contains(ignored, d.Name):
		m.lose(d.Place(), "%s: is unknown", text(d))
	case d.Name == "stream" || d.Name == "mail":
		m.lostIn(d, d.Block)
	case d.Braced:
		// Such as if: nginx allows no limits there, but locations of nothing else.
		m.walk(b, d.Block)
	}
}

// lostIn names the limits of blocks that are not HTTP.
func (m *migration) lostIn(of *nginxconf.Directive, all []nginxconf.Directive) {
	for i := range all {
		if d := &all[i]; strings.HasPrefix(d.Name, "limit_") {
			m.lose(d.Place(), "%s: belongs to %s, and fastlimit decides only about HTTP requests", text(d), of.Name)
		}
		m.lostIn(of, all[i].Block)
	}
}

// enter makes the block of d within b. Until it says otherwise, it takes the requests
// that b takes.
func (m *migration) enter(b *block, d *nginxconf.Directive) *block {
	in := &block{d: d, parent: b, hosts: b.hosts, paths: b.paths, unmatched: b.unmatched}
	b.inner = append(b.inner, in)
	return in
}

// setHosts reads which hosts a server block serves. With one alone it serves all.
func (m *migration) setHosts(b *block) {
	if m.servers < 2 { // nginx gives it every request, whatever its names
		return
	}
	var hosts []string
	for i := range b.d.Block {
		if d := &b.d.Block[i]; d.Name == "server_name" {
			for _, name := range d.Args {
				hosts = append(hosts, m.hostPatterns(b, d, name)...)
			}
		}
	}
	b.hosts = distinct(hosts)
}

// hostPatterns are the patterns of one server name. nginx has stars at either end
// only, and they cross dots as ours do.
func (m *migration) hostPatterns(b *block, d *nginxconf.Directive, name string) []string {
	patterns := []string{strings.ToLower(name)}
	switch {
	case name == "_" || name == "" || name == "-": // the usual names for "none"
		return nil
	case strings.HasPrefix(name, "~"):
		b.unmatched = text(d) + " is a regular expression, but hosts are matched by patterns"
		return nil
	case strings.HasPrefix(name, "."): // the name and what is below it
		patterns = []string{strings.ToLower(name[1:]), "*" + strings.ToLower(name)}
	}
	for _, p := range patterns {
		if err := policy.CheckHostPattern(p); err != nil {
			b.unmatched = text(d) + " is not a host name"
		}
	}
	return patterns
}

// distinct keeps the first of equal texts: a list of patterns may not repeat one.
func distinct(all []string) (kept []string) {
	for _, s := range all {
		if !slices.Contains(kept, s) {
			kept = append(kept, s)
		}
	}
	return kept
}

// effective are the limits that nginx applies in b.
func (b *block) effective() []*nginxconf.Directive {
	for ; b != nil; b = b.parent {
		if len(b.reqs) > 0 {
			return b.reqs
		}
	}
	return nil
}

// shadow tells whether limit_req_dry_run is on in b.
func (b *block) shadow() bool {
	for ; b != nil; b = b.parent {
		if b.dryRun != nil {
			return slices.Equal(b.dryRun.Args, []string{"on"})
		}
	}
	return false
}
