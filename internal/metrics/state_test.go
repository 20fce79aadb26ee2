package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/statefile"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestStateMetrics(t *testing.T) {
	t.Parallel()
	loaded := LoadedTorn
	c := State(func() statefile.Stats {
		return statefile.Stats{Written: time.Unix(1700000000, 5e8), Bytes: 1234, Took: 1500 * time.Millisecond, Errors: map[statefile.Class]uint64{statefile.ClassFull: 3}}
	}, func() *Loaded { return &loaded })
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	const want = `
# HELP fastlimit_state_errors_total Times that the state file could not be written, by class: full, refused, missing, other.
# TYPE fastlimit_state_errors_total counter
fastlimit_state_errors_total{class="full"} 3
fastlimit_state_errors_total{class="missing"} 0
fastlimit_state_errors_total{class="other"} 0
fastlimit_state_errors_total{class="refused"} 0
# HELP fastlimit_state_file_bytes Size of the state file when it was last written.
# TYPE fastlimit_state_file_bytes gauge
fastlimit_state_file_bytes 1234
# HELP fastlimit_state_last_success_timestamp_seconds When the state file was last written successfully, in seconds since 1970; 0 if never.
# TYPE fastlimit_state_last_success_timestamp_seconds gauge
fastlimit_state_last_success_timestamp_seconds 1.7000000005e+09
# HELP fastlimit_state_loaded 1 for the result of loading the state file at start.
# TYPE fastlimit_state_loaded gauge
fastlimit_state_loaded{result="torn"} 1
# HELP fastlimit_state_write_duration_seconds Time that the last write of the state file took, including pauses.
# TYPE fastlimit_state_write_duration_seconds gauge
fastlimit_state_write_duration_seconds 1.5
`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
