package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestLiveRules(t *testing.T) {
	t.Parallel()
	c := LiveRules(func() map[string]time.Duration {
		return map[string]time.Duration{"per-ip": 90 * time.Second, "login": 0}
	})
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	want := `
# HELP fastlimit_live_rule_seconds Time until a rule that an operator has changed is as in the file again; 0 if it is not changed.
# TYPE fastlimit_live_rule_seconds gauge
fastlimit_live_rule_seconds{rule="login"} 0
fastlimit_live_rule_seconds{rule="per-ip"} 90
`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
