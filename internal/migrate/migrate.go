// Package migrate translates the limits of nginx into rules.
//
// nginx has a zone, which says what is counted and at which rate, and directives
// that apply it to what is in their block. A rule has both. What fastlimit cannot
// say, or not yet, becomes a [Note] with its line: nothing is left out in silence,
// and no rule is made that would limit other requests without a note.
//
//	limit_req_zone KEY zone=NAME:… rate=R     key, rate
//	limit_req zone=NAME burst=N               burst: N+1, match from server and location
//	limit_req_dry_run on                      mode: shadow
//	limit_req_status S                        deny_status, if all agree
//	limit_conn_zone, limit_conn               connections.max_per_client, by address
package migrate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fastlimit/fastlimit/internal/migrate/nginxconf"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/policy"
)

// Result is what a configuration comes to. Its YAML is by [Result.WriteYAML].
type Result struct {
	Rules        []Rule
	DenyStatus   int // 0: nginx's default, or they differ
	MaxPerClient int // 0: none
	PerKey       int // requests of one client that wait at most; 0: none
	maxPlace     string
	Notes        []Note
}

// Rule is a rule with the directives that it is from.
type Rule struct {
	policy.RuleSpec

	From   []string // file:line: directive
	zone   *zone
	blocks []*block // where they stand
}

// Note is what a reader has to know of a line: that it is not translated, or how
// the rule differs.
type Note struct {
	Place string // file:line
	Text  string
	Lost  bool // not translated
}

// Nginx translates a configuration whose main file is text, called name. The error
// is a [*nginxconf.Error].
func Nginx(name, text string, files nginxconf.Files) (*Result, error) {
	all, missing, err := nginxconf.Parse(name, text, files)
	if err != nil {
		return nil, err
	}
	m := &migration{zones: map[string]*zone{}, conns: map[string]*zone{}, variables: map[string]string{}, r: &Result{}}
	for _, e := range missing {
		m.lose(fmt.Sprintf("%s:%d", e.File, e.Line), "%s; limits in it are not translated", e.Problem)
	}
	m.collect(all)
	root := &block{}
	m.walk(root, all)
	m.limits(root)
	m.r.Rules = m.merge(m.r.Rules)
	m.bound()
	m.noteOverlaps(root)
	m.status()
	m.name()
	slices.SortStableFunc(m.r.Notes, func(a, b Note) int { return comparePlaces(a.Place, b.Place) })
	return m.r, nil
}

// migration is the work on one configuration. Not safe for concurrent use.
type migration struct {
	zones, conns map[string]*zone  // by name
	variables    map[string]string // place of the map, geo or set that makes a variable
	statuses     []*nginxconf.Directive
	servers      int
	r            *Result
}

func (m *migration) lose(place, format string, args ...any) {
	m.r.Notes = append(m.r.Notes, Note{place, fmt.Sprintf(format, args...), true})
}

func (m *migration) note(place, format string, args ...any) {
	n := Note{place, fmt.Sprintf(format, args...), false}
	if !slices.Contains(m.r.Notes, n) {
		m.r.Notes = append(m.r.Notes, n)
	}
}

// text is a directive as its file has it, but for white space and quotes.
func text(d *nginxconf.Directive) string {
	return strings.Join(append([]string{d.Name}, d.Args...), " ")
}

// collect finds zones and variables, wherever they stand: limits may come before.
func (m *migration) collect(all []nginxconf.Directive) {
	for i := range all {
		d := &all[i]
		switch d.Name {
		case "limit_req_zone":
			m.addZone(m.zones, d)
		case "limit_conn_zone":
			m.addZone(m.conns, d)
		case "map", "geo", "set", "split_clients":
			m.addVariable(d)
		case "server":
			if d.Braced {
				m.servers++
			}
		}
		m.collect(d.Block)
	}
}

// addVariable notes where a variable comes from: the last argument, but that of set.
func (m *migration) addVariable(d *nginxconf.Directive) {
	if len(d.Args) == 0 {
		return
	}
	name := d.Args[len(d.Args)-1]
	if d.Name == "set" {
		name = d.Args[0]
	}
	m.variables[strings.TrimPrefix(name, "$")] = fmt.Sprintf("%s at %s", d.Name, d.Place())
}

// status chooses deny_status if all limits that say one say the same.
func (m *migration) status() {
	for _, d := range m.statuses {
		code := 0
		if len(d.Args) == 1 {
			code, _ = number(d.Args[0], 599)
		}
		switch {
		case code < 400:
			m.lose(d.Place(), "%s: is not the status code of an error", text(d))
		case m.r.DenyStatus == 0:
			m.r.DenyStatus = code
		case m.r.DenyStatus != code:
			m.lose(d.Place(), "%s: a listener has one deny_status for all rules, here %d", text(d), m.r.DenyStatus)
		}
	}
}

// bound names the directives of rules beyond the most there can be.
func (m *migration) bound() {
	for i := limit.MaxRules; i < len(m.r.Rules); i++ {
		for _, from := range m.r.Rules[i].From {
			at, what, _ := strings.Cut(from, ": ")
			m.lose(at, "%s: there are more than %d rules", what, limit.MaxRules)
		}
	}
	m.r.Rules = m.r.Rules[:min(len(m.r.Rules), limit.MaxRules)]
}

// name names each rule after its zone, with a number where the name is taken.
func (m *migration) name() {
	taken := map[string]bool{}
	for i := range m.r.Rules {
		base := safeName(m.r.Rules[i].zone.name)
		name := base
		for n := 2; taken[name]; n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		taken[name] = true
		m.r.Rules[i].Limit.Name = name
	}
}

// safeName keeps what names of rules may have.
func safeName(zone string) string {
	safe := strings.Map(func(r rune) rune {
		if r < 0x80 && (r == '.' || r == '-' || r == '_' || r >= '0' && r <= '9' || r|0x20 >= 'a' && r|0x20 <= 'z') {
			return r
		}
		return '-'
	}, zone)
	return safe[:min(len(safe), 56)]
}

// comparePlaces sorts file:line by file and by the number of the line.
func comparePlaces(a, b string) int {
	fileA, lineA := cutPlace(a)
	fileB, lineB := cutPlace(b)
	if c := strings.Compare(fileA, fileB); c != 0 {
		return c
	}
	return lineA - lineB
}

func cutPlace(place string) (file string, line int) {
	i := strings.LastIndexByte(place, ':')
	line, _ = number(place[i+1:], 1<<31-1)
	return place[:max(i, 0)], line
}
