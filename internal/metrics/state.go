package metrics

import (
	"github.com/fastlimit/fastlimit/internal/prom"
	"github.com/fastlimit/fastlimit/internal/statefile"
	"github.com/prometheus/client_golang/prometheus"
)

// Loaded is the result of reading the state file at the start.
type Loaded string

// All results. Those after LoadedLater are reasons why it was ignored.
const (
	LoadedNone       Loaded = "none"   // there was none
	LoadedAll        Loaded = "loaded" // everything was taken over
	LoadedMerged     Loaded = "merged" // likewise, from a process that ended later
	LoadedLater      Loaded = "held"   // another process has it
	LoadedForeign    Loaded = "foreign"
	LoadedVersion    Loaded = "version"
	LoadedTorn       Loaded = "torn"
	LoadedDamaged    Loaded = "damaged"
	LoadedMachine    Loaded = "machine"
	LoadedFuture     Loaded = "future"
	LoadedTooLarge   Loaded = "too_large"
	LoadedTooOld     Loaded = "too_old"
	LoadedUnreadable Loaded = "unreadable"
	LoadedUnfit      Loaded = "unfit" // does not fit the configuration
)

// State returns a collector of the state file.
func State(stats func() statefile.Stats, loaded func() *Loaded) prometheus.Collector {
	return prom.Collector(func() stateStats { return stateStats{stats(), *loaded()} }, stateMetrics)
}

type stateStats struct {
	statefile.Stats

	loaded Loaded
}

var stateMetrics = []prom.Metric[stateStats]{
	prom.Gauge("state_last_success_timestamp_seconds", "When the state file was last written successfully, in seconds since 1970; 0 if never.", func(s *stateStats) float64 {
		if s.Written.IsZero() {
			return 0
		}
		return float64(s.Written.UnixMilli()) / 1000
	}),
	prom.Gauge("state_file_bytes", "Size of the state file when it was last written.", func(s *stateStats) float64 { return float64(s.Bytes) }),
	prom.Gauge("state_write_duration_seconds", "Time that the last write of the state file took, including pauses.", func(s *stateStats) float64 { return s.Took.Seconds() }),
	prom.Counters("state_errors_total", "Times that the state file could not be written, by class: full, refused, missing, other.", []string{"class"},
		func(s *stateStats, add func(uint64, ...string)) {
			for _, c := range statefile.Classes {
				add(s.Errors[c], string(c))
			}
		}),
	prom.Gauges("state_loaded", "1 for the result of loading the state file at start.", []string{"result"},
		func(s *stateStats, set func(float64, ...string)) { set(1, string(s.loaded)) }),
}
