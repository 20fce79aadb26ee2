package metrics

import (
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/internal/bans"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestBans(t *testing.T) {
	t.Parallel()
	c := Bans(func() bans.Stats { return bans.Stats{ByOperators: 3} })
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	want := `
# HELP fastlimit_operator_bans Prefixes that operators have banned on this node.
# TYPE fastlimit_operator_bans gauge
fastlimit_operator_bans 3
`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
