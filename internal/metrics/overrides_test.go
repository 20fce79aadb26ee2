package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/overrides"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestOverrideMetrics(t *testing.T) {
	t.Parallel()
	s := overrides.Stats{
		Rules: []overrides.RuleStats{{Rule: "a", File: 50, Live: 2}, {Rule: "b"}},
		Age:   1500 * time.Millisecond, Errors: 3, Ignored: 4, Unused: 5, Bytes: 6, Applied: 7,
	}
	c := Overrides(func() overrides.Stats { return s })
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	const want = `
# HELP fastlimit_overrides Overrides in force on this node, by source: file, or live for those that operators set.
# TYPE fastlimit_overrides gauge
fastlimit_overrides{rule="a",source="file"} 50
fastlimit_overrides{rule="a",source="live"} 2
fastlimit_overrides{rule="b",source="file"} 0
fastlimit_overrides{rule="b",source="live"} 0
# HELP fastlimit_overrides_applied_total Times that a set of live overrides was applied.
# TYPE fastlimit_overrides_applied_total counter
fastlimit_overrides_applied_total 7
# HELP fastlimit_overrides_bytes Memory that live overrides use, at most an eighth of memory.
# TYPE fastlimit_overrides_bytes gauge
fastlimit_overrides_bytes 6
# HELP fastlimit_overrides_errors_total Failures to read live overrides from the store, or to change them there.
# TYPE fastlimit_overrides_errors_total counter
fastlimit_overrides_errors_total 3
# HELP fastlimit_overrides_ignored_records Records in the store that are not live overrides, or too large.
# TYPE fastlimit_overrides_ignored_records gauge
fastlimit_overrides_ignored_records 4
# HELP fastlimit_overrides_poll_age_seconds Time since live overrides were last read from the store.
# TYPE fastlimit_overrides_poll_age_seconds gauge
fastlimit_overrides_poll_age_seconds 1.5
# HELP fastlimit_overrides_unused Live overrides that are not in force on this node, because it does not have the rule or not enough memory.
# TYPE fastlimit_overrides_unused gauge
fastlimit_overrides_unused 5
`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
