package suggest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/breakdown"
	"github.com/fastlimit/fastlimit/internal/safetext"
	"github.com/fastlimit/fastlimit/policy"
)

const (
	// window is the length of time whose load is examined as a whole: at least as long as a noticeable flood.
	window = 300 * second
	// mostFew and leastShare define when a few have most of the load.
	mostFew    = 3
	leastShare = 0.75
	// leastBusy is how many requests count as a load: one a second.
	leastBusy = 300
	// allOf is the share of all requests from which a rule for a path would be a rule for all.
	allOf = 0.95
	// oneIn is the sampling of the whole log for that: one request in so many.
	oneIn = 16

	// loud is the share from which a single client is left out of the networks' counts, or it would hide one.
	loud = 0.01

	longestGroup = 80 // bytes of it that are shown
)

// Busiest is the five minutes with the most requests.
type Busiest struct {
	From     string `json:"from"`
	To       string `json:"to"` // times, RFC 3339
	Requests uint64 `json:"requests"`
	// Few are those that have at least three quarters of them: networks of several clients, or paths. None if
	// they are more than three.
	Few []Few `json:"few"`
}

// Few are a few groups that have most of the load.
type Few struct {
	By     string  `json:"by"` // net or path
	Of     uint64  `json:"of"` // requests: all except those of single clients that sent more than 1 % each
	Share  float64 `json:"share"`
	Groups []Part  `json:"groups"` // the largest first

	specs []policy.RuleSpec // the rules that limit them
}

// Part is one of these groups.
type Part struct {
	Group    string  `json:"group"`
	Requests uint64  `json:"requests"` // a lower bound
	Share    float64 `json:"share"`
}

// peak counts the requests of the busiest window. The zero value has none.
type peak struct {
	now, best tallied
	all       tallied // a sample
	seen      uint64
}

// tallied is the tally of a window.
type tallied struct {
	of       int64 // its number
	requests uint64
	*breakdown.Tally
}

// add counts a request. Times do not go back.
func (p *peak) add(at int64, r *policy.Request) {
	if p.now.Tally == nil {
		p.now.Tally, p.best.Tally, p.all.Tally = new(breakdown.Tally), new(breakdown.Tally), new(breakdown.Tally)
	}
	if of := at / window; of != p.now.of {
		p.end()
		p.now.of = of
	}
	q := breakdown.Request{Client: r.Client, Path: r.Path}
	p.now.requests++
	p.now.Add(&q, 1)
	p.seen++
	if p.seen*0x9e3779b97f4a7c15>>32%oneIn == 0 { // no pattern of the log has this period
		p.all.requests++
		p.all.Add(&q, 1)
	}
}

// end ends a window.
func (p *peak) end() {
	if p.now.requests > p.best.requests {
		p.now, p.best = p.best, p.now
	}
	p.now.requests = 0
	p.now.Reset()
}

// busiest returns the report, or nil if there were hardly any requests.
func (p *peak) busiest() *Busiest {
	if p.now.Tally == nil {
		return nil
	}
	p.end()
	if p.best.requests < leastBusy {
		return nil
	}
	text := func(of int64) string { return time.UnixMicro(of * window).UTC().Format(time.RFC3339) }
	b := &Busiest{From: text(p.best.of), To: text(p.best.of + 1), Requests: p.best.requests, Few: []Few{}}
	for _, by := range []breakdown.By{breakdown.Net, breakdown.Path} {
		groups, all := breakdown.Groups(by, p.best.Tally), p.best.requests
		if by == breakdown.Net { // rules by address are for single clients
			groups = slices.DeleteFunc(groups, func(g breakdown.Group) bool {
				if g.Level == 0 && float64(g.Units) > loud*float64(p.best.requests) {
					all -= g.Units
				}
				return g.Level == 0
			})
		}
		if f := p.few(by, groups, all); f != nil {
			b.Few = append(b.Few, *f)
		}
	}
	return b
}

// few returns the fewest groups that have most of the requests, or nil if they are too many.
func (p *peak) few(by breakdown.By, groups []breakdown.Group, all uint64) *Few {
	if all < leastBusy {
		return nil
	}
	f := &Few{By: by.String(), Of: all}
	for _, g := range groups[:min(mostFew, len(groups))] {
		part := Part{g.Text(), g.Units, float64(g.Units) / float64(all)}
		f.Groups, f.Share = append(f.Groups, part), f.Share+part.Share
		if spec, ok := p.specFor(by, &g); ok && !slices.ContainsFunc(f.specs, func(s policy.RuleSpec) bool { return keyName(&s) == keyName(&spec) }) {
			f.specs = append(f.specs, spec)
		}
		if f.Share >= leastShare {
			return f
		}
	}
	return nil
}

// specFor returns the rule that limits a group: networks of its size, or each client on its path.
func (p *peak) specFor(by breakdown.By, g *breakdown.Group) (s policy.RuleSpec, ok bool) {
	s.Key = []policy.KeyPart{{Kind: policy.KeyIP}}
	switch {
	case by == breakdown.Net && g.Level == 1:
		s.Limit = fastlimit.RuleConfig{IPv4Prefix: 24, IPv6Prefix: 48}
	case by == breakdown.Net:
		s.Limit = fastlimit.RuleConfig{IPv4Prefix: 16, IPv6Prefix: 32}
	default:
		s.Match.Paths = []string{g.Name}
		literal := g.Text() == g.Name && strings.Count(g.Name, "*") == g.Level // the folder's own
		return s, literal && !p.isAll(g) && policy.CheckPathPattern(g.Name) == nil
	}
	return s, true
}

// isAll reports whether nearly all requests of the log are for a path or folder.
func (p *peak) isAll(g *breakdown.Group) bool {
	return float64(p.all.Units(breakdown.Path, g.Level, g.Name)) > allOf*float64(p.all.requests)
}

// Extend adds to c, the report's configuration, what is needed for rules that limit the few that have most of
// the load. It returns false if there is nothing to add.
func (r *Report) Extend(c *Config) (more bool) {
	if r.Busiest == nil {
		return false
	}
	for _, f := range r.Busiest.Few {
		for _, s := range f.specs {
			if !slices.ContainsFunc(c.Keys, func(k policy.RuleSpec) bool { return keyName(&k) == keyName(&s) }) {
				c.Keys, more = append(c.Keys, s), true
			}
		}
		if f.By == breakdown.Net.String() {
			for _, p := range f.Groups {
				more = more || !slices.Contains(c.Suspects, p.Group)
				c.Suspects = append(c.Suspects, p.Group)
			}
		}
	}
	return more
}

// Summary describes the few in a sentence.
func (b *Busiest) Summary(f Few) string {
	things, verb := "network", "came from"
	if f.By == breakdown.Path.String() {
		things, verb = "path", "went to"
	}
	without := ""
	if f.Of < b.Requests {
		without = fmt.Sprintf(", not counting %d from single clients,", b.Requests-f.Of)
	}
	return fmt.Sprintf("Most of the load %s a few %ss: %s of the %d requests in the busiest five minutes, from %s on,%s %s %s",
		verb, things, share(f.Share), f.Of, b.From, without, verb, count(len(f.Groups), things))
}

// Text formats a part for people.
func (p Part) Text() string {
	return fmt.Sprintf("%s  %s  %s", safetext.Quote(p.Group, longestGroup), count(p.Requests, "request"), share(p.Share))
}

func (b *Busiest) writeText(w *strings.Builder) {
	for _, f := range b.Few {
		fmt.Fprintf(w, "\n%s:\n", b.Summary(f))
		for _, p := range f.Groups {
			fmt.Fprintf(w, "  %s\n", p.Text())
		}
	}
}
