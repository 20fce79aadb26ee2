package migrate

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/policy"
)

// WriteYAML writes the rules as a configuration file, with the directives that each
// is from and all notes as comments.
func (r *Result) WriteYAML(to io.Writer) error {
	w := bufio.NewWriter(to)
	r.writeNotes(w, "Not translated:", true)
	r.writeNotes(w, "Different from nginx:", false)
	if r.DenyStatus > 0 {
		fmt.Fprintf(w, "deny_status: %d\n", r.DenyStatus)
	}
	if r.MaxPerClient > 0 {
		fmt.Fprintf(w, "connections: {max_per_client: %d} # %s\n", r.MaxPerClient, comment(r.maxPlace))
	}
	if r.PerKey > limit.DefaultWaitersPerKey {
		fmt.Fprintf(w, "wait: {per_key: %d, total: %d}\n", r.PerKey, max(limit.DefaultWaiters, r.PerKey))
	}
	fmt.Fprintln(w, "rules:")
	for i := range r.Rules {
		writeRule(w, &r.Rules[i])
	}
	return w.Flush()
}

// writeNotes writes the notes of one kind below a heading, or nothing if there are
// none, and ends with an empty line.
func (r *Result) writeNotes(w io.Writer, heading string, lost bool) {
	for _, n := range r.Notes {
		if n.Lost != lost {
			continue
		}
		if heading != "" {
			fmt.Fprintln(w, "#", heading)
			heading = ""
		}
		fmt.Fprintf(w, "#   %s: %s\n", comment(n.Place), comment(n.Text))
	}
	if heading == "" {
		fmt.Fprintln(w)
	}
}

// writeRule writes a rule in full: defaults may change, and the reader compares with
// nginx's line. What is left out is what nginx cannot say.
func writeRule(w io.Writer, r *Rule) {
	for _, from := range r.From {
		fmt.Fprintf(w, "  # %s\n", comment(from))
	}
	fmt.Fprintf(w, "  - name: %s\n    key: %s\n", quote(r.Limit.Name), key(r.Key))
	var match []string
	for _, m := range []struct {
		name     string
		patterns []string
	}{{"host", r.Match.Hosts}, {"path", r.Match.Paths}} {
		if len(m.patterns) > 0 {
			match = append(match, m.name+": "+list(m.patterns))
		}
	}
	if match != nil {
		fmt.Fprintf(w, "    match: {%s}\n", strings.Join(match, ", "))
	}
	fmt.Fprintf(w, "    rate: %v\n    burst: %d\n", r.Limit.Rate, r.Limit.Burst)
	switch {
	case r.Limit.MaxWait > 0 && r.Limit.Mode == fastlimit.Shadow: // beside which it is refused
		fmt.Fprintf(w, "    # max_wait: %v # once the rule is enforced\n", r.Limit.MaxWait)
	case r.Limit.MaxWait > 0:
		fmt.Fprintf(w, "    max_wait: %v\n", r.Limit.MaxWait)
	}
	if r.Limit.Mode == fastlimit.Shadow {
		fmt.Fprintln(w, "    mode: shadow")
	}
}

// key is a part, or a list of them. Names are quoted, as a colon or a number may be
// in them.
func key(parts []policy.KeyPart) string {
	var all []string
	for _, p := range parts {
		s := p.String()
		if p.Name != "" {
			s = quote(s)
		}
		all = append(all, s)
	}
	return oneOrMore(all)
}

// list is one text, or a list of them.
func list(texts []string) string {
	var all []string
	for _, t := range texts {
		all = append(all, quote(t))
	}
	return oneOrMore(all)
}

func oneOrMore(all []string) string {
	if len(all) == 1 {
		return all[0]
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// quote writes text in double quotes, in which YAML has the escapes of Go. ${ would be
// a variable.
func quote(s string) string { return strconv.Quote(strings.ReplaceAll(s, "${", "$${")) }

// comment is text that stays on one line and shows what cannot be seen.
func comment(s string) string {
	q := strconv.QuoteToGraphic(s)
	return strings.ReplaceAll(strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`), `\\`, `\`)
}
