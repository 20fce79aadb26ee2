package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

func windowRule(rate string, strict, countDenied bool) policy.RuleSpec {
	s := rule("per-ip", rate, 0)
	s.Limit.Algorithm, s.Limit.Strict, s.Limit.CountDenied = fastlimit.FixedWindow, strict, countDenied
	return s
}

// inWindows counts what windows by the log's own minutes deny, in a map.
func inWindows(hits []hit, perMinute int) (denied int) {
	type window struct {
		client string
		minute int64
	}
	counts := map[window]int{}
	for _, h := range slices.SortedStableFunc(slices.Values(hits), func(a, b hit) int { return cmp.Compare(a.at, b.at) }) {
		name := h.client.String()
		if p, _ := h.client.Prefix(64); h.client.Is6() {
			name = p.String()
		}
		w := window{name, h.at / 60}
		if counts[w]++; counts[w] > perMinute {
			denied++
		}
	}
	return denied
}

func TestWindowsAgainstAMap(t *testing.T) {
	t.Parallel()
	hits := generate(100_000, 90)
	want := inWindows(hits, 12)
	for _, strict := range []bool{false, true} {
		r := mustRun(t, logOf(hits), config(policy.Settings{Rules: []policy.RuleSpec{windowRule("12/m", strict, false)}}))
		rr := r.Rules[0]
		if rr.ExactDenied != want || r.FalseDenials != 0 || r.Denied > want || r.Denied == 0 || strict && r.Denied != want {
			t.Errorf("strict %t: denied %d, the oracle %d; want %d; %d false", strict, r.Denied, rr.ExactDenied, want, r.FalseDenials)
		}
		if bound := 0.5*12 + 1; !strict && (rr.ExcessBound != bound || rr.Excess > bound || rr.Excess < bound/2) || strict && rr.Excess != 0 {
			t.Errorf("strict %t: excess %v of %v", strict, rr.Excess, rr.ExcessBound)
		}
	}
}

// Windows begin by the log's time, also after a silence that the limiter's time
// leaves out: 3 in the last second of a minute and 3 in the next one all fit 3/m.
func TestWindowsAreThoseOfTheLog(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	for _, begin := range []string{"2024-02-29 23:59:00", "2024-02-29 23:59:59", "2024-03-01 00:00:00", "2025-07-01 12:29:59", "2025-07-01 12:30:00"} {
		at, err := time.Parse(time.DateTime, begin)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			fmt.Fprintf(&log, "192.0.2.7 - - [%s] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\"\n", at.Format("02/Jan/2006:15:04:05 -0700"))
		}
	}
	r := mustRun(t, log.String(), config(policy.Settings{Rules: []policy.RuleSpec{windowRule("3/m", true, false)}}))
	if r.Denied != 3 || r.Rules[0].ExactDenied != 3 || r.FalseDenials != 0 {
		t.Errorf("%d denied, by the oracle %d, %d falsely; want the 3 that repeat themselves", r.Denied, r.Rules[0].ExactDenied, r.FalseDenials)
	}
	var text strings.Builder
	if err := r.WriteText(&text, 3); err != nil || !strings.Contains(text.String(), "rule per-ip: 3/m, fixed window, enforce") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

// What is denied counts, where it is to.
func TestDenialsCount(t *testing.T) {
	t.Parallel()
	c := config(policy.Settings{Rules: []policy.RuleSpec{windowRule("5/m", true, true)}})
	c.Limiter.Rules[0].Cost = 3
	r := mustRun(t, repeat(4, `192.0.2.7 - - [01/Mar/2024:00:00:01 +0000] "GET / HTTP/1.1" 200 1 "-" "-"`), c)
	if r.Denied != 3 || r.Rules[0].ExactDenied != 3 || r.FalseDenials != 0 {
		t.Errorf("%d denied, by the oracle %d, %d falsely; want 3", r.Denied, r.Rules[0].ExactDenied, r.FalseDenials)
	}
}
