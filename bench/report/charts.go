package report

import (
	"cmp"
	"fmt"
	"slices"
)

// charts are the plots of a group.
func charts(g *group, colors *colors) []*chart {
	var all []*chart
	for _, w := range g.byWorkload() {
		all = append(all, perCore(w, colors), latency(w, colors), shed(w, colors))
	}
	all = append(all, errorByMemory(g.results, colors))
	return slices.DeleteFunc(all, func(c *chart) bool { return len(c.Series) == 0 })
}

// collect makes a series of each limiter from the points that its results have.
// Those of fewer than atLeast points are left out.
func collect(results []Result, colors *colors, atLeast int, points func(*Result) [][2]float64) []series {
	var all []series
	for i := range results {
		r := &results[i]
		if r.Limiter == Baseline {
			continue // so far from the others that it would squeeze them
		}
		at := slices.IndexFunc(all, func(s series) bool { return s.Name == r.Limiter })
		if at < 0 {
			all = append(all, series{Name: r.Limiter})
			at = len(all) - 1
		}
		all[at].points = append(all[at].points, points(r)...)
	}
	all = slices.DeleteFunc(all, func(s series) bool { return len(s.points) < atLeast })
	for i := range all {
		all[i].color = colors.of(all[i].Name)
		slices.SortStableFunc(all[i].points, func(a, b [2]float64) int { return cmp.Compare(a[0], b[0]) })
	}
	return all
}

// perCore is throughput against cores.
func perCore(w *group, colors *colors) *chart {
	c := &chart{
		Title: "Throughput against cores: " + w.name,
		Note:  "Higher is better. All cores together.",
		Y:     axis{Label: "decisions per second", log: true},
	}
	var cores []int
	c.Series = collect(w.results, colors, 2, func(r *Result) [][2]float64 {
		v, ok := throughput(r)
		if !ok || r.Cores == 0 {
			return nil
		}
		cores = append(cores, r.Cores)
		return [][2]float64{{float64(r.Cores), v}}
	})
	slices.Sort(cores)
	cores = slices.Compact(cores)
	if len(cores) < 2 { // nothing to compare
		c.Series = nil
		return c
	}
	c.X = axis{Label: "cores", lo: float64(cores[0]) - 0.5, hi: float64(cores[len(cores)-1]) + 0.5}
	for _, n := range cores {
		c.X.ticks = append(c.X.ticks, tick{float64(n), count(float64(n))})
	}
	return c
}

// throughput is in decisions per second. ns_per_op is the time between two
// decisions, of all cores together.
func throughput(r *Result) (float64, bool) {
	if r.PerSecond != nil {
		return *r.PerSecond, true
	}
	if r.NsPerOp != nil && *r.NsPerOp > 0 {
		return 1e9 / *r.NsPerOp, true
	}
	return 0, false
}

// latency is the time to an answer by percentile.
func latency(w *group, colors *colors) *chart {
	c := &chart{
		Title: "Latency by percentile: " + w.name,
		Note:  "Lower is better. From the moment a request was due, so that a stall counts for all who would have waited.",
		X:     nines(),
		Y:     axis{Label: "latency, µs", log: true},
	}
	c.Series = collect(w.results, colors, 2, func(r *Result) [][2]float64 {
		var points [][2]float64
		for _, p := range r.Series["latency_us"] {
			if p[0] < 100 {
				points = append(points, [2]float64{nine(p[0]), p[1]})
			}
		}
		return points
	})
	return c
}

// shed is the share of denials over time.
func shed(w *group, colors *colors) *chart {
	c := &chart{
		Title: "Shed share over time: " + w.name,
		Note:  "Of the requests due in each quarter of a second.",
		X:     axis{Label: "time, s"},
		Y:     axis{Label: "denied, % of requests", hi: 100},
	}
	for v := 0.0; v <= 100; v += 20 {
		c.Y.ticks = append(c.Y.ticks, tick{v, count(v)})
	}
	c.Series = collect(w.results, colors, 2, func(r *Result) [][2]float64 {
		var points [][2]float64
		for _, p := range r.Series["shed"] {
			points = append(points, [2]float64{p[0], 100 * p[1]})
		}
		return points
	})
	return c
}

// errorByMemory is what a limiter gets wrong against what it takes to hold, in
// the largest flood.
func errorByMemory(results []Result, colors *colors) *chart {
	most := int64(0)
	for i := range results {
		if results[i].HitterAdmitted != nil {
			most = max(most, results[i].Keys)
		}
	}
	c := &chart{
		Title:   fmt.Sprintf("Error against memory: %s clients, each seen once", si(float64(most))),
		Note:    "A heavy client hidden among them, steady or in pulses, whichever was worse: what was admitted to it, to what its limit admits. 1 is right; a limiter that forgets it admits more. Left is less memory.",
		X:       axis{Label: "resident memory, MiB", log: true},
		Y:       axis{Label: "admitted, × its limit", log: true},
		Scatter: true,
	}
	c.Series = collect(results, colors, 1, func(r *Result) [][2]float64 {
		if r.HitterAdmitted == nil || r.RSSBytes == nil || r.Keys != most {
			return nil
		}
		return [][2]float64{{float64(*r.RSSBytes) / (1 << 20), *r.HitterAdmitted}}
	})
	for i := range c.Series {
		worst := slices.MaxFunc(c.Series[i].points, func(a, b [2]float64) int { return cmp.Compare(a[1], b[1]) })
		c.Series[i].points = [][2]float64{worst}
	}
	return c
}
