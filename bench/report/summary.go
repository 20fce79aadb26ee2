package report

import (
	"fmt"
	"strings"
)

// comparison is one figure of fastlimit beside that of the best other.
type comparison struct {
	Title, Unit string
	Ours, Best  string
	Name        string // of the best other
	Ratio       string
	Loses       bool
}

// The summary is what readers look at first, and often alone, so it must show
// losses as clearly as gains: nothing is left out because fastlimit loses there.

// summary compares fastlimit with the best of the others in the figures that
// people choose a limiter by.
func summary(results []Result) (all []comparison) {
	for _, g := range groups(results) {
		if g.name == "accuracy" {
			g = overall(g)
		}
		for _, name := range compared[g.name] {
			for i := range columns {
				if c := &columns[i]; c.heading() == name {
					all = append(all, c.compare(g)...)
				}
			}
		}
	}
	return all
}

// overall sums up each limiter over all workloads: the sum of its false denials,
// and its worst excess.
func overall(g *group) *group {
	all := &group{name: g.name}
	at := map[string]int{}
	for i := range g.results {
		r := &g.results[i]
		if r.FalseDenials == nil || r.Excess == nil {
			continue
		}
		if _, ok := at[r.Limiter]; !ok {
			at[r.Limiter] = len(all.results)
			all.results = append(all.results, Result{
				Group: r.Group, Workload: "all workloads", Limiter: r.Limiter, FalseDenials: new(int64), Excess: new(float64),
			})
		}
		sum := &all.results[at[r.Limiter]]
		*sum.FalseDenials += *r.FalseDenials
		*sum.Excess = max(*sum.Excess, *r.Excess)
	}
	return all
}

// compared are the columns of a group that the summary has.
var compared = map[string][]string{
	"local":    {"time, ns/decision"},
	"accuracy": {"false denials, requests", "excess, requests"},
	"memory":   {"RSS, MiB"},
	"http":     {"decisions, 1/s", "CPU, µs/request", "p99, µs"},
	"redis":    {"decisions, 1/s"},
}

// aside reports whether a limiter is no alternative to fastlimit: the harness, the
// clock, or fastlimit itself.
func aside(limiter string) bool {
	return limiter == Baseline || limiter == "time.Now" || strings.HasPrefix(limiter, "fastlimit")
}

// compare has one comparison for each workload and size in which fastlimit and
// another have the figure. Those where both have none of it are left out.
func (c *column) compare(g *group) (all []comparison) {
	for i := range g.results {
		ours := &g.results[i]
		v, ok := c.value(ours)
		if !ok || ours.Limiter != "fastlimit" {
			continue
		}
		best, name := 0.0, ""
		for j := range g.results {
			o := &g.results[j]
			w, ok := c.value(o)
			if !ok || aside(o.Limiter) || o.Workload != ours.Workload || o.Cores != ours.Cores || !c.sameSize(o, ours) {
				continue
			}
			if name == "" || float64(c.better)*(w-best) > 0 {
				best, name = w, o.Limiter
			}
		}
		if name == "" || v == 0 && best == 0 || repeats(all, c, v, best, name) {
			continue
		}
		all = append(all, comparison{
			Title: g.name + ": " + ours.Workload + size(ours), Unit: c.heading(),
			Ours: c.format(v), Best: c.format(best), Name: name,
			Ratio: ratio(v, best, c.better), Loses: float64(c.better)*(best-v) > 0 && c.format(v) != c.format(best),
		})
	}
	return all
}

// repeats reports whether the last comparison said the same of another workload.
func repeats(all []comparison, c *column, ours, best float64, name string) bool {
	if len(all) == 0 {
		return false
	}
	last := all[len(all)-1]
	return last.Ours == c.format(ours) && last.Best == c.format(best) && last.Name == name
}

// sameSize reports whether two results may be compared: a limiter that was
// stopped has not held as many keys.
func (c *column) sameSize(o, ours *Result) bool {
	return o.Keys == ours.Keys && (ours.Group != "memory" || o.Error == "")
}

// size tells apart the results of one workload by what else varies.
func size(r *Result) string {
	switch {
	case r.Group == "local" && r.Cores > 1:
		return fmt.Sprintf(", %d cores", r.Cores)
	case r.Group == "local":
		return ", 1 core"
	case r.Group == "memory":
		return ", " + si(float64(r.Keys)) + " keys"
	}
	return ""
}

// ratio says by how much ours is better, as a factor: below 1 it is worse.
func ratio(ours, other float64, better int) string {
	if better < 0 {
		ours, other = other, ours
	}
	if ours == 0 || other == 0 {
		return ""
	}
	return "× " + short(ours/other)
}
