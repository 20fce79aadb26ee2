package report

import (
	"cmp"
	_ "embed"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

//go:embed page.html
var pageSource string

var pageTemplate *template.Template

// In init, since charts in the page execute another template of it.
func init() { pageTemplate = template.Must(template.New("page").Parse(pageSource)) }

// HTML writes the reports as one page. Where two of them have the same limiter
// under the same workload, the later one counts.
func HTML(w io.Writer, reports ...Report) error {
	results := Merge(reports...)
	var p page
	p.Environments = environments(reports)
	p.Summary = summary(results)
	var colors colors
	colors.of("fastlimit") // the first, whatever the order of the reports
	for _, g := range groups(results) {
		p.Sections = append(p.Sections, section{
			Name: g.name, Title: title(g.name), Text: groupTexts[g.name].text,
			Charts: charts(g, &colors), Tables: tables(g),
		})
	}
	p.Setups = setups(results)
	return pageTemplate.Execute(w, &p)
}

// Merge joins the results of reports. A later result replaces an earlier one of
// the same limiter under the same workload, cores and keys.
func Merge(reports ...Report) []Result {
	type id struct {
		group, workload, limiter string
		cores                    int
		keys                     int64
	}
	var all []Result
	at := map[id]int{}
	for _, report := range reports {
		for _, r := range report.Results {
			k := id{r.Group, r.Workload, r.Limiter, r.Cores, r.Keys}
			if i, ok := at[k]; ok {
				all[i] = r
				continue
			}
			at[k] = len(all)
			all = append(all, r)
		}
	}
	return all
}

// What the template shows. All text is formatted here, so that page.html holds no
// arithmetic.
type (
	page struct {
		Environments []environment
		Summary      []comparison
		Sections     []section
		Setups       []setup
	}
	environment struct {
		Environment
		Runs     []run
		Versions []string
	}
	run     struct{ When, Flags string }
	section struct {
		Name, Title, Text string
		Charts            []*chart
		Tables            []table
	}
	table struct {
		Workload string
		Notes    bool // any row has one
		Head     []string
		Rows     []row
	}
	row struct {
		Limiter, Note string
		Ours          bool
		Cells         []cell
	}
	cell struct {
		Text string
		Best bool
	}
	setup struct{ Limiter, Group, Text string }
)

// groupTexts say what a section shows, to a reader who has not seen the code.
var groupTexts = map[string]struct{ title, text string }{
	"local":        {"In process", "Decisions by a call, without network. Each limiter in a process of its own, in turns; medians."},
	"algorithms":   {"Algorithms", "One client, admitted or denied, by each algorithm of fastlimit and by other limiters, in memory and through Redis. Each in a process of its own, in turns; medians."},
	"accuracy":     {"Accuracy", "Against an exact bucket per client. A false denial hits a client within its limit; excess is what the worst client got beyond rate and burst."},
	"memory":       {"Memory", "Floods of clients that are each seen once, with two heavy ones among them: a steady one, and one in pulses. What became of them is in the outcome."},
	"http":         {"Over HTTP", "Each server on one core, the load on another. Throughput and CPU time from a closed loop, latencies from an open one. Where the load's core is the bottleneck, CPU time is the figure that tells servers apart."},
	"redis":        {"Redis", "One flooding client among many well-behaved ones, exact buckets in Redis."},
	"redis-http":   {"Redis, over HTTP", "A server with its buckets in Redis, asked by one flooding client and 100,000 well-behaved ones. What Redis is asked, as the store counts it and as Redis does."},
	"redis-faults": {"Redis, misbehaving", "How long requests waited for a Redis that is struck by a fault, and what the failure policies decided, from the stroke until Redis is used again. Beside the timeout stands what a sleep of a millisecond was late by at the same time."},
	"postgres":     {"PostgreSQL", "One flooding client among many well-behaved ones, exact buckets in PostgreSQL; exact checks beside an upsert for each; the size of the table."},
	"bans":         {"Bans", "A flood, seconds after it began, against servers that shut its senders out and servers that answer them. CPU time is that of the server's processes and of the kernel for packets that reach them; latencies are those of polite clients beside the flood."},
	"cluster":      {"Cluster", "What a node tells each other node of its heavy clients, and what of one client it may leave out, in simulated time."},
}

// title falls back to the name, for reports of a newer program.
func title(group string) string {
	if t := groupTexts[group].title; t != "" {
		return t
	}
	return group
}

// environments are the machines and commits that reports come from, each with
// its runs.
func environments(reports []Report) (all []environment) {
	for i := range reports {
		e := reports[i].Environment
		e.Commit = orUnknown(e.Commit)
		same := func(o environment) bool {
			return o.CPU == e.CPU && o.Cores == e.Cores && o.Kernel == e.Kernel && o.Go == e.Go && o.Commit == e.Commit
		}
		at := slices.IndexFunc(all, same)
		if at < 0 {
			all = append(all, environment{Environment: e})
			at = len(all) - 1
		}
		v := &all[at]
		v.Runs = append(v.Runs, run{e.Date.UTC().Format(time.DateTime) + " UTC", strings.Join(e.Flags, " ")})
		for _, name := range slices.Sorted(maps.Keys(e.Versions)) {
			v.Versions = append(v.Versions, name+" "+e.Versions[name])
		}
		slices.Sort(v.Versions)
		v.Versions = slices.Compact(v.Versions)
	}
	return all
}

// tables has one table for each workload.
func tables(g *group) []table {
	var all []table
	for _, w := range g.byWorkload() {
		in := w.results
		slices.SortStableFunc(in, func(a, b Result) int {
			return cmp.Or(cmp.Compare(a.Cores, b.Cores), cmp.Compare(a.Keys, b.Keys))
		})
		cols := used(in)
		t := table{Workload: w.name}
		for _, c := range cols {
			t.Head = append(t.Head, c.heading())
		}
		for i := range in {
			r := row{Limiter: in[i].Limiter, Note: note(&in[i]), Ours: strings.HasPrefix(in[i].Limiter, "fastlimit")}
			for _, c := range cols {
				r.Cells = append(r.Cells, cell{c.text(&in[i]), c.best(&in[i], in)})
			}
			t.Notes = t.Notes || r.Note != ""
			t.Rows = append(t.Rows, r)
		}
		all = append(all, t)
	}
	return all
}

// best reports whether no result of the same size is better.
func (c column) best(r *Result, among []Result) bool {
	v, ok := c.value(r)
	if !ok || c.better == 0 || r.Limiter == Baseline {
		return false
	}
	worse := false
	for i := range among {
		o := &among[i]
		w, ok := c.value(o)
		if !ok || o.Cores != r.Cores || o.Keys != r.Keys || o.Limiter == Baseline {
			continue
		}
		switch d := float64(c.better) * (w - v); {
		case d > 0:
			return false
		case d < 0:
			worse = true
		}
	}
	return worse
}

// setups tell how each limiter was configured, once for each section.
func setups(results []Result) (all []setup) {
	for i := range results {
		s := setup{results[i].Limiter, results[i].Group, results[i].Setup}
		if s.Text != "" && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}
