package report

import (
	"fmt"
	"math"
	"reflect"
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
	{"cores", "", figure("Cores", 1), count, 0},
	{"keys", "", figure("Keys", 1), si, 0},
	{"flood", "1/s", figure("FloodPerSecond", 1), si, 0},
	{"decisions", "1/s", figure("PerSecond", 1), si, 1},
	{"time", "ns/decision", figure("NsPerOp", 1), short, -1},
	{"allocations", "1/decision", figure("AllocsPerOp", 1), short, -1},
	{"CPU", "µs/request", figure("CPUMicros", 1), short, -1},
	{"survived", "requests/CPU s", figure("Survived", 1), si, 1},
	{"processes", "CPU s/s", figure("ProcessCPU", 1), short, -1},
	{"kernel, receiving", "CPU s/s", figure("ReceiverCPU", 1), short, -1},
	{"both when idle", "CPU s/s", figure("IdleCPU", 1), short, -1},
	{"quiet after", "ms", figure("QuietMillis", 1), short, -1},
	{"system calls", "1/request", figure("Syscalls", 1), short, -1},
	{"idle connection", "bytes", figure("ConnBytes", 1), si, -1},
	{"generator idle", "%", figure("GeneratorIdle", 1), percent, 0},
	{"timeout", "µs", figure("TimeoutMicros", 1), short, 0},
	{"p50", "µs", entry("LatencyMicros", "p50"), short, -1},
	{"p99", "µs", entry("LatencyMicros", "p99"), short, -1},
	{"p99.9", "µs", entry("LatencyMicros", "p99.9"), short, -1},
	{"max", "µs", entry("LatencyMicros", "max"), short, -1},
	{"a sleep is late by: p99.9", "µs", entry("LagMicros", "p99.9"), short, 0},
	{"max", "µs", entry("LagMicros", "max"), short, 0},
	{"false denials", "requests", figure("FalseDenials", 1), si, -1},
	{"denials of conforming clients", "requests", figure("ConformingDenied", 1), si, -1},
	{"excess", "requests", figure("Excess", 1), short, -1},
	{"hitter admitted", "× its limit", figure("HitterAdmitted", 1), short, 0}, // less than 1 is as wrong as more
	{"denied", "%", figure("Denied", 1), percent, 0},
	{"decided without Redis", "%", figure("Degraded", 1), percent, 0},
	{"of these admitted: local", "%", entry("DegradedAdmitted", "local"), percent, 0},
	{"open", "%", entry("DegradedAdmitted", "open"), percent, 0},
	{"closed", "%", entry("DegradedAdmitted", "closed"), percent, 0},
	{"Redis back after", "ms", figure("BackMillis", 1), short, -1},
	{"exact bucket denies", "%", figure("DeniedExactly", 1), percent, 0},
	{"checked exactly", "%", figure("Escalated", 1), percent, 0},
	{"store", "operations/request", figure("StorePerRequest", 1), short, -1},
	{"store", "operations/s", figure("StorePerSecond", 1), short, -1},
	{"counted by Redis", "buckets/request", figure("StoreReads", 1), short, -1},
	{"store CPU", "µs/request", figure("StoreCPUMicros", 1), short, -1},
	{"table", "MiB", figure("StoreBytes", 1<<20), short, -1},
	{"times the usual way", "", figure("Speedup", 1), short, 1},
	{"sent to each peer", "bytes/s", figure("SyncBytes", 1), si, -1},
	{"sent to each peer", "packets/s", figure("SyncPackets", 1), short, -1},
	{"may stay untold of a client", "units/s", figure("SyncBound", 1), short, -1},
	{"was untold", "units/s", figure("SyncUntold", 1), short, -1},
	{"RSS", "MiB", figure("RSSBytes", 1<<20), short, -1},
	{"planned", "MiB", figure("PlannedBytes", 1<<20), short, 0},
	{"RSS growth", "MiB", figure("RSSGrowth", 1<<20), short, -1},
	{"requests", "", figure("Requests", 1), si, 0},
}

// figure is the field of that name, in units of a size. One that is not there,
// or 0 where the field is no pointer, is no figure.
func figure(name string, unit float64) func(*Result) (float64, bool) {
	return func(r *Result) (float64, bool) {
		f := reflect.ValueOf(r).Elem().FieldByName(name)
		if f.IsZero() {
			return 0, false
		}
		v := reflect.Indirect(f).Convert(reflect.TypeFor[float64]()).Float()
		return v / unit, !math.IsNaN(v)
	}
}

// entry is one of the figures in the field of that name.
func entry(field, name string) func(*Result) (float64, bool) {
	return func(r *Result) (float64, bool) {
		v, ok := reflect.ValueOf(r).Elem().FieldByName(field).Interface().(map[string]float64)[name]
		return v, ok
	}
}

// A column that no result of a table fills is left out of it, so that one list
// serves all measurements.

// used returns the columns for which any of the results has a figure.
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

// Formats of columns.

// count formats a whole number.
func count(v float64) string { return strconv.Itoa(int(v)) }

// percent formats a share of 1 with two digits behind the point; smaller shares
// keep two significant digits, since a false denial in 10^6 is not none.
func percent(v float64) string {
	if v != 0 && math.Abs(v) < 0.0001 {
		return fmt.Sprintf("%.2g", 100*v)
	}
	return strconv.FormatFloat(math.Round(1e4*v)/100, 'f', -1, 64)
}

// short formats a number with about three significant digits.
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

// si formats a number with the prefix k, M or G.
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
