package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/lists"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestListMetrics(t *testing.T) {
	t.Parallel()
	c := Lists(func() []lists.State {
		return []lists.State{
			{List: policy.ListAllow, Path: "cdn.txt", Entries: 12, Read: time.Unix(1700000000, 5e8)},
			{List: policy.ListDeny, Path: "/etc/block", Read: time.Unix(1700000001, 0), Error: "x", Failures: 3},
		}
	})
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	const want = `
# HELP fastlimit_list_file_entries Entries in force from a file of the allow or deny list.
# TYPE fastlimit_list_file_entries gauge
fastlimit_list_file_entries{file="/etc/block",list="deny"} 0
fastlimit_list_file_entries{file="cdn.txt",list="allow"} 12
# HELP fastlimit_list_file_errors_total Times that a file of the allow or deny list could not be read, or contained a mistake.
# TYPE fastlimit_list_file_errors_total counter
fastlimit_list_file_errors_total{file="/etc/block",list="deny"} 3
fastlimit_list_file_errors_total{file="cdn.txt",list="allow"} 0
# HELP fastlimit_list_file_failing 1 while the entries in force are older than the file, because it cannot be read or contains a mistake.
# TYPE fastlimit_list_file_failing gauge
fastlimit_list_file_failing{file="/etc/block",list="deny"} 1
fastlimit_list_file_failing{file="cdn.txt",list="allow"} 0
# HELP fastlimit_list_file_last_success_timestamp_seconds When a file of the allow or deny list was last read successfully, in seconds since 1970.
# TYPE fastlimit_list_file_last_success_timestamp_seconds gauge
fastlimit_list_file_last_success_timestamp_seconds{file="/etc/block",list="deny"} 1.700000001e+09
fastlimit_list_file_last_success_timestamp_seconds{file="cdn.txt",list="allow"} 1.7000000005e+09
`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
