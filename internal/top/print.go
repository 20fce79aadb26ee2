package top

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Write prints the table for pipes, rates as in "12.0 ±0.5": two clients whose intervals overlap may rank the
// other way round.
func (d *Document) Write(out io.Writer) error {
	if warning := d.Totals.warning(); warning != "" {
		fmt.Fprintln(out, warning)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RULE\tCLIENT\tUNITS/S\t±\tDENIED/S\tLIMIT/S\tSHARE\tSTATE\tNODES")
	for i := range d.Clients {
		c := &d.Clients[i]
		fmt.Fprintf(w, "%s\t%s\t%.1f\t%.1f\t%.1f\t%s\t%s\t%s\t%s\n", cell(c.Rule), c.name(), c.Rate, c.Error, c.Denied,
			limitOf(c), shareOf(c), orDash(stateOf(c)), cell(strings.Join(c.Nodes, ",")))
	}
	return w.Flush()
}

// Write prints the table of groups, with their share of the load.
func (g *Groups) Write(out io.Writer) error {
	if warning := g.Totals.warning(); warning != "" {
		fmt.Fprintln(out, warning)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.ToUpper(cell(g.By))+"\tREQUESTS/S\t±\tDENIED/S\tSHARE")
	told := 0.0
	for i := range g.Groups {
		r := &g.Groups[i]
		told += r.Rate
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%s\n", word(r.Group), r.Rate, r.Error, r.Denied, percent(r.Share))
	}
	others := max(g.Requests-told, 0)
	fmt.Fprintf(w, "(others)\t%.1f\t-\t-\t%s\n", others, percent(others/max(g.Requests, 1e-9)))
	return w.Flush()
}

// orDash avoids an empty column, so that scripts can split lines.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return strings.ReplaceAll(s, " ", ",")
}
