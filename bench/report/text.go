package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Text writes a table for each group of results.
func Text(w io.Writer, r *Report) error {
	e := &r.Environment
	if _, err := fmt.Fprintf(w, "%s, %d cores, %s, %s, commit %s\n", e.CPU, e.Cores, e.Kernel, e.Go, orUnknown(e.Commit)); err != nil {
		return err
	}
	for _, g := range groups(r.Results) {
		if err := g.text(w); err != nil {
			return err
		}
	}
	return nil
}

func (g *group) text(w io.Writer) error {
	cols := used(g.results)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "\n%s\tlimiter", g.name)
	for _, c := range cols {
		fmt.Fprintf(tw, "\t%s", c.heading())
	}
	fmt.Fprintln(tw)
	for i := range g.results {
		r := &g.results[i]
		cells := []string{r.Workload, r.Limiter}
		for _, c := range cols {
			cells = append(cells, c.text(r))
		}
		if n := note(r); n != "" {
			cells = append(cells, n)
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	return tw.Flush() // errors of the lines above come out here
}

// group is all results of one kind, in the order of the report.
type group struct {
	name    string
	results []Result
}

func groups(results []Result) []*group {
	var all []*group
	byName := map[string]*group{}
	for _, r := range results {
		g := byName[r.Group]
		if g == nil {
			g = &group{name: r.Group}
			byName[r.Group] = g
			all = append(all, g)
		}
		g.results = append(g.results, r)
	}
	return all
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
