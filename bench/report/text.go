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

// text writes one table for all workloads of the group; notes have no column of
// their own and come last.
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

// group is results that belong together, in the order of the report.
type group struct {
	name    string
	results []Result
}

// groups are the results by what was measured: each is a section of the report.
func groups(results []Result) []*group {
	return groupBy(results, func(r *Result) string { return r.Group })
}

// byWorkload are the results of the group by workload: each is a table, and a
// chart of each kind.
func (g *group) byWorkload() []*group {
	return groupBy(g.results, func(r *Result) string { return r.Workload })
}

func groupBy(results []Result, key func(*Result) string) (all []*group) {
	byName := map[string]*group{}
	for i := range results {
		name := key(&results[i])
		g := byName[name]
		if g == nil {
			g = &group{name: name}
			byName[name] = g
			all = append(all, g)
		}
		g.results = append(g.results, results[i])
	}
	return all
}

// orUnknown makes a gap visible.
func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
