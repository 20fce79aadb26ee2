package report

import (
	"fmt"
	"strings"
	"testing"
)

// TestSummary: the best other is found, whatever is better, among those of the
// same size that were not stopped; losses are marked.
func TestSummary(t *testing.T) {
	t.Parallel()
	results := []Result{
		{Group: "local", Workload: "zipf-1.1", Limiter: "fastlimit", Cores: 1, NsPerOp: new(50.0)},
		{Group: "local", Workload: "zipf-1.1", Limiter: "fastlimit, own clock", Cores: 1, NsPerOp: new(20.0)},
		{Group: "local", Workload: "zipf-1.1", Limiter: "slow", Cores: 1, NsPerOp: new(400.0)},
		{Group: "local", Workload: "zipf-1.1", Limiter: "good", Cores: 1, NsPerOp: new(100.0)},
		{Group: "local", Workload: "zipf-1.1", Limiter: "good", Cores: 2, NsPerOp: new(10.0)},
		{Group: "local", Workload: "zipf-1.1", Limiter: Baseline, Cores: 1, NsPerOp: new(3.0)},
		{Group: "local", Workload: "clock", Limiter: "fastlimit", Cores: 1, NsPerOp: new(30.0)},
		{Group: "local", Workload: "clock", Limiter: "time.Now", Cores: 1, NsPerOp: new(40.0)},

		{Group: "accuracy", Workload: "a", Limiter: "fastlimit", FalseDenials: new(int64), Excess: new(90.0)},
		{Group: "accuracy", Workload: "b", Limiter: "fastlimit", FalseDenials: new(int64), Excess: new(100.0)},
		{Group: "accuracy", Workload: "a", Limiter: "x", FalseDenials: new(int64(7)), Excess: new(1.0)},
		{Group: "accuracy", Workload: "b", Limiter: "x", FalseDenials: new(int64(8)), Excess: new(10.0)},
		{Group: "accuracy", Workload: "b", Limiter: "fails", Error: "no"},

		{Group: "memory", Workload: "flood", Limiter: "fastlimit", Keys: 1e7, RSSBytes: new(int64(20 << 20))},
		{Group: "memory", Workload: "flood", Limiter: "stopped", Keys: 1e7, RSSBytes: new(int64(1 << 20)), Error: "stopped"},
		{Group: "memory", Workload: "flood", Limiter: "grown", Keys: 1e7, RSSBytes: new(int64(200 << 20))},

		{Group: "http", Workload: "hot", Limiter: "fastlimit", PerSecond: new(50e3), CPUMicros: new(12.0)},
		{Group: "http", Workload: "hot", Limiter: "nginx", PerSecond: new(100e3), CPUMicros: new(8.0)},
		{Group: "http", Workload: "even", Limiter: "fastlimit", PerSecond: new(50e3)},
		{Group: "http", Workload: "even", Limiter: "nginx", PerSecond: new(50.01e3)},
		{Group: "http", Workload: "hot", Limiter: "other", PerSecond: new(90e3), CPUMicros: new(6.0)},
	}
	var got []string
	for _, c := range summary(results) {
		got = append(got, fmt.Sprint(c.Title, "|", c.Unit, "|", c.Ours, "|", c.Best, "|", c.Name, "|", c.Ratio, "|", c.Loses))
	}
	want := []string{
		"local: zipf-1.1, 1 core|time, ns/decision|50|100|good|× 2|false",
		"accuracy: all workloads|false denials, requests|0|15|x||false",
		"accuracy: all workloads|excess, requests|100|10|x|× 0.10|true",
		"memory: flood, 10 M keys|RSS, MiB|20|200|grown|× 10|false",
		"http: hot|decisions, 1/s|50 k|100 k|nginx|× 0.50|true",
		"http: even|decisions, 1/s|50 k|50 k|nginx|× 1.00|false",
		"http: hot|CPU, µs/request|12|6|other|× 0.50|true",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestEnvironments: runs of one machine and commit share a card.
func TestEnvironments(t *testing.T) {
	t.Parallel()
	a, b := sample(), sample()
	b.Environment.Flags, b.Environment.Versions = []string{"other"}, map[string]string{"haproxy": "2.6"}
	c := sample()
	c.Environment.Commit = ""
	all := environments([]Report{a, b, c})
	if len(all) != 2 || len(all[0].Runs) != 2 || strings.Join(all[0].Versions, ", ") != "haproxy 2.6, nginx 1.22.1" ||
		all[0].Runs[1].Flags != "other" || all[1].Commit != "unknown" {
		t.Errorf("%+v", all)
	}
}

// TestErrorByMemory shows each limiter once, by its worse hitter in the largest
// flood.
func TestErrorByMemory(t *testing.T) {
	t.Parallel()
	var results []Result
	for _, keys := range []int64{1e7, 1e8} {
		for _, admitted := range []float64{1, 1.3, 0.9} {
			results = append(results, Result{Limiter: "x", Keys: keys, RSSBytes: new(keys), HitterAdmitted: new(admitted)})
		}
	}
	c := errorByMemory(results, new(colors))
	if len(c.Series) != 1 || len(c.Series[0].points) != 1 || c.Series[0].points[0] != [2]float64{1e8 / (1 << 20), 1.3} ||
		!strings.Contains(c.Title, "100 M") {
		t.Errorf("%s: %+v", c.Title, c.Series)
	}
}
