package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// column is one figure of a result.
type column struct {
	name, unit string
	value      func(*Result) (float64, bool)
	format     func(float64) string
	better     int // -1: less is better, 1: more is, 0: neither
}

// columns are all figures, in the order of the tables.
var columns = []column{
	{"cores", "", func(r *Result) (float64, bool) { return float64(r.Cores), r.Cores > 0 }, count, 0},
	{"keys", "", func(r *Result) (float64, bool) { return float64(r.Keys), r.Keys > 0 }, si, 0},
	{"flood", "1/s", float(func(r *Result) *float64 { return r.FloodPerSecond }), si, 0},
	{"decisions", "1/s", float(func(r *Result) *float64 { return r.PerSecond }), si, 1},
	{"time", "ns/decision", float(func(r *Result) *float64 { return r.NsPerOp }), short, -1},
	{"allocations", "1/decision", float(func(r *Result) *float64 { return r.AllocsPerOp }), short, -1},
	{"CPU", "µs/request", float(func(r *Result) *float64 { return r.CPUMicros }), short, -1},
	{"timeout", "µs", float(func(r *Result) *float64 { return r.TimeoutMicros }), short, 0},
	{"p50", "µs", percentile("p50"), short, -1},
	{"p99", "µs", percentile("p99"), short, -1},
	{"p99.9", "µs", percentile("p99.9"), short, -1},
	{"max", "µs", percentile("max"), short, -1},
	{"a sleep is late by: p99.9", "µs", lag("p99.9"), short, 0},
	{"max", "µs", lag("max"), short, 0},
	{"false denials", "requests", whole(1, func(r *Result) *int64 { return r.FalseDenials }), si, -1},
	{"denials of conforming clients", "requests", whole(1, func(r *Result) *int64 { return r.ConformingDenied }), si, -1},
	{"excess", "requests", float(func(r *Result) *float64 { return r.Excess }), short, -1},
	{"hitter admitted", "× its limit", float(func(r *Result) *float64 { return r.HitterAdmitted }), short, 0}, // less than 1 is as wrong as more
	{"denied", "%", float(func(r *Result) *float64 { return r.Denied }), percent, 0},
	{"decided without Redis", "%", float(func(r *Result) *float64 { return r.Degraded }), percent, 0},
	{"of these admitted: local", "%", fallback("local"), percent, 0},
	{"open", "%", fallback("open"), percent, 0},
	{"closed", "%", fallback("closed"), percent, 0},
	{"Redis back after", "ms", float(func(r *Result) *float64 { return r.BackMillis }), short, -1},
	{"exact bucket denies", "%", float(func(r *Result) *float64 { return r.DeniedExactly }), percent, 0},
	{"checked exactly", "%", float(func(r *Result) *float64 { return r.Escalated }), percent, 0},
	{"Redis", "operations/request", float(func(r *Result) *float64 { return r.StorePerRequest }), short, -1},
	{"Redis", "operations/s", float(func(r *Result) *float64 { return r.StorePerSecond }), short, -1},
	{"counted by Redis", "buckets/request", float(func(r *Result) *float64 { return r.StoreReads }), short, -1},
	{"Redis CPU", "µs/request", float(func(r *Result) *float64 { return r.StoreCPUMicros }), short, -1},
	{"times the usual way", "", float(func(r *Result) *float64 { return r.Speedup }), short, 1},
	{"sent to each peer", "bytes/s", float(func(r *Result) *float64 { return r.SyncBytes }), si, -1},
	{"sent to each peer", "packets/s", float(func(r *Result) *float64 { return r.SyncPackets }), short, -1},
	{"may stay untold of a client", "units/s", float(func(r *Result) *float64 { return r.SyncBound }), short, -1},
	{"was untold", "units/s", float(func(r *Result) *float64 { return r.SyncUntold }), short, -1},
	{"RSS", "MiB", whole(1<<20, func(r *Result) *int64 { return r.RSSBytes }), short, -1},
	{"RSS growth", "MiB", whole(1<<20, func(r *Result) *int64 { return r.RSSGrowth }), short, -1},
	{"requests", "", func(r *Result) (float64, bool) { return float64(r.Requests), r.Requests > 0 }, si, 0},
}

func float(of func(*Result) *float64) func(*Result) (float64, bool) {
	return func(r *Result) (float64, bool) {
		if p := of(r); p != nil && !math.IsNaN(*p) {
			return *p, true
		}
		return 0, false
	}
}

// one is an entry of a figure that has several.
func one(name string, of func(*Result) map[string]float64) func(*Result) (float64, bool) {
	return func(r *Result) (float64, bool) {
		v, ok := of(r)[name]
		return v, ok
	}
}

func percentile(name string) func(*Result) (float64, bool) {
	return one(name, func(r *Result) map[string]float64 { return r.LatencyMicros })
}

func lag(name string) func(*Result) (float64, bool) {
	return one(name, func(r *Result) map[string]float64 { return r.LagMicros })
}

func fallback(policy string) func(*Result) (float64, bool) {
	return one(policy, func(r *Result) map[string]float64 { return r.DegradedAdmitted })
}

// whole is a whole number in units of a size.
func whole(unit float64, of func(*Result) *int64) func(*Result) (float64, bool) {
	return func(r *Result) (float64, bool) {
		if p := of(r); p != nil {
			return float64(*p) / unit, true
		}
		return 0, false
	}
}

// used are the columns that any of the results fills.
func used(results []Result) []column {
	var all []column
	for _, c := range columns {
		if slices.ContainsFunc(results, func(r Result) bool { _, ok := c.value(&r); return ok }) {
			all = append(all, c)
		}
	}
	return all
}

// note is what a result says in words.
func note(r *Result) string {
	if r.Verdict != "" && r.Error != "" {
		return r.Verdict + "; " + r.Error
	}
	return r.Verdict + r.Error
}

func (c column) heading() string {
	if c.unit == "" {
		return c.name
	}
	return c.name + ", " + c.unit
}

func (c column) text(r *Result) string {
	v, ok := c.value(r)
	if !ok {
		return ""
	}
	return c.format(v)
}

func count(v float64) string { return strconv.Itoa(int(v)) }

func percent(v float64) string {
	if v != 0 && math.Abs(v) < 0.0001 {
		return fmt.Sprintf("%.2g", 100*v)
	}
	return strconv.FormatFloat(math.Round(1e4*v)/100, 'f', -1, 64)
}

// short has three digits that count.
func short(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1e6:
		return si(v)
	case a >= 100 || v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 0.01:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// si has a prefix for thousands.
func si(v float64) string {
	for _, p := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		// 999,950 would be 1000 k.
		if math.Abs(v) >= p.size*0.99995 {
			return strconv.FormatFloat(math.Round(v/p.size*10)/10, 'f', -1, 64) + " " + p.name
		}
	}
	return short(v)
}

// Baseline is the limiter of results that are the cost of the harness alone.
const Baseline = "none"
