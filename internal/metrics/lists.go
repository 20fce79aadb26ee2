package metrics

import (
	"github.com/fastlimit/fastlimit/internal/lists"
	"github.com/fastlimit/fastlimit/internal/prom"
	"github.com/prometheus/client_golang/prometheus"
)

// Lists returns a collector of the files of allow and deny lists.
func Lists(files func() []lists.State) prometheus.Collector {
	return prom.Collector(func() listFiles { return files() }, listMetrics)
}

type listFiles []lists.State

// Files are named in the configuration, so their names may be labels.
var listMetrics = []prom.Metric[listFiles]{
	listGauge("list_file_entries", "Entries in force from a file of the allow or deny list.", func(f *lists.State) float64 { return float64(f.Entries) }),
	listGauge("list_file_last_success_timestamp_seconds", "When a file of the allow or deny list was last read successfully, in seconds since 1970.",
		func(f *lists.State) float64 { return float64(f.Read.UnixMilli()) / 1000 }),
	listGauge("list_file_failing", "1 while the entries in force are older than the file, because it cannot be read or contains a mistake.",
		func(f *lists.State) float64 { return oneIf(f.Error != "") }),
	prom.Counters("list_file_errors_total", "Times that a file of the allow or deny list could not be read, or contained a mistake.", listLabels,
		func(all *listFiles, add func(uint64, ...string)) {
			for _, f := range *all {
				add(f.Failures, f.List.String(), f.Path)
			}
		}),
}

var listLabels = []string{"list", "file"}

// listGauge is a gauge with a series for each file.
func listGauge(name, help string, read func(f *lists.State) float64) prom.Metric[listFiles] {
	return prom.Gauges(name, help, listLabels, func(all *listFiles, set func(float64, ...string)) {
		for i := range *all {
			f := &(*all)[i]
			set(read(f), f.List.String(), f.Path)
		}
	})
}
