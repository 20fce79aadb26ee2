package suggest

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteText writes the report as a configuration file: the rules, below comments with the figures. So all of
// it can be pasted or redirected into a file.
func (r *Report) WriteText(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", count(r.Requests, "request"))
	if r.Requests > 0 {
		fmt.Fprintf(&b, " from %s to %s", r.First, r.Last)
	}
	if r.Skipped > 0 {
		fmt.Fprintf(&b, "; %s skipped", count(r.Skipped, "line"))
	}
	if r.Late > 0 {
		fmt.Fprintf(&b, "; %s were too far out of order to be counted at their time", count(r.Late, "line"))
	}
	b.WriteString("\n")
	if r.WholeSeconds {
		b.WriteString("Times are whole seconds: requests of a second count as if they came at once, so real bursts are smaller.\n")
	}
	if r.Busiest != nil {
		r.Busiest.writeText(&b)
	}
	for i := range r.Keys {
		r.Keys[i].writeText(&b, r.Spare)
	}
	if r.Config != "" {
		b.WriteString("\n" + columnNotes(r.Spare))
	}
	for _, s := range r.SkippedLines {
		in := ""
		if s.File != "" {
			in = " of " + s.File
		}
		fmt.Fprintf(&b, "\nskipped line %d%s: %s: %s", s.Line, in, s.Reason, s.Text)
	}
	if more := r.Skipped - len(r.SkippedLines); len(r.SkippedLines) > 0 {
		if more > 0 {
			fmt.Fprintf(&b, "\nand %d more", more)
		}
		b.WriteString("\n")
	}
	text := asComment(b.String())
	if r.Config != "" {
		text += "\n" + r.Config
	}
	_, err := io.WriteString(out, text)
	return err
}

// asComment puts # before each line. Clients' text has no line end, but a file's name may; YAML also accepts
// a carriage return as one.
func asComment(text string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.ReplaceAll(text, "\r", "\\r")) {
		b.WriteString(strings.TrimRight("# "+line, " \n") + "\n")
	}
	return b.String()
}

// columnNotes explains the columns.
func columnNotes(spare string) string {
	return "50 % to all: with this burst, that share of the clients would never have been denied at this rate.\n" +
		"burst: never denies " + spaced(spare) + " of the clients that do not look like attacks, rounded up; the next columns show what it denies.\n" +
		"a minute: requests that a client over its limit can still make within a minute. The fewest are marked > and are the rule below; limits that\n" +
		"take more than an hour to drain are not considered if there are others. The limiter may admit half a burst more, see escalate_at.\n"
}

// writeText writes the table of a key, and the clients left out of the choice.
func (k *Key) writeText(b *strings.Builder, spare string) {
	fmt.Fprintf(b, "\n%s: %s", k.name, count(k.Requests, "request"))
	switch {
	case k.Clients == 0:
		b.WriteString(": no limit to suggest\n")
		return
	case k.Sampled > 1:
		fmt.Fprintf(b, "; --memory has room for only one client in %d, %d of them: the figures are for this sample\n", k.Sampled, k.Clients)
	default:
		fmt.Fprintf(b, " of %s\n", count(k.Clients, "client"))
	}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\n  rate\t50 %%\t90 %%\t99 %%\t99.9 %%\tall\tburst\tclients\tshed\trequests\tshed\ta minute\n")
	for i := range k.Rows {
		r := &k.Rows[i]
		mark := "  "
		if i == k.chosen {
			mark = "> "
		}
		fmt.Fprintf(w, "%s%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%d\t%s\t%d\n", mark, r.Rate, r.P50, r.P90, r.P99, r.P999, r.Max,
			r.Burst, r.ClientsShed, share(r.ClientsShare), r.RequestsShed, share(r.RequestsShare), r.InAMinute)
	}
	w.Flush() // to a strings.Builder, which never fails
	k.writeAttackers(b)
}

// shownAttackers is how many attackers are shown; JSON has all of them.
const shownAttackers = 10

func (k *Key) writeAttackers(b *strings.Builder) {
	if len(k.Attackers) == 0 {
		return
	}
	fmt.Fprintf(b, "\nNot considered, as they look like attacks: %s.\n%s.\n", k.attackersShare(), k.attackRule())
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for i, a := range k.Attackers {
		if i == shownAttackers {
			fmt.Fprintf(w, "  and %d more\n", len(k.Attackers)-i)
			break
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\tneeded %d\n", a.Key, count(a.Requests, "request"), share(a.Share), a.Needed)
	}
	w.Flush()
}

// attackersShare says how many attackers there are, and what they sent together.
func (k *Key) attackersShare() string {
	sent := uint64(0)
	for _, a := range k.Attackers {
		sent += a.Requests
	}
	return fmt.Sprintf("%s with %s of the requests", count(len(k.Attackers), "client"), share(float64(sent)/float64(k.Counted)))
}

// attackRule says what makes them attackers.
func (k *Key) attackRule() string {
	switch k.suspects {
	case 0:
	case len(k.Attackers):
		return "They send most of the load in the busiest five minutes, see above"
	default:
		return fmt.Sprintf("%d of them send most of the load in the busiest five minutes, see above; at %s each of the others needed a burst of %d or more, and at least %d times what any other client needed",
			k.suspects, k.Chosen, attackBurst, attackFactor)
	}
	return fmt.Sprintf("At %s each needed a burst of %d or more, and at least %d times what any other client needed", k.Chosen, attackBurst, attackFactor)
}

// count formats a number of things.
func count[N int | uint64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// share formats a share for people. Few of many are not none: 1 of a million is 0.0001 %.
func share(f float64) string {
	switch {
	case f == 0:
		return "0 %"
	case f < 0.001:
		return fmt.Sprintf("%.2g %%", 100*f)
	}
	return fmt.Sprintf("%.1f %%", 100*f)
}

// spaced formats a percentage for the text.
func spaced(spare string) string { return strings.TrimSuffix(spare, "%") + " %" }
