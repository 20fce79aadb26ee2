package decide

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/denial"
)

// A denial that is taken again has the bytes that it would have been rendered to,
// whatever came before it; and some are taken again.
func TestLastDenial(t *testing.T) {
	t.Parallel()
	page, err := denial.NewPage("text/html", "again in {{retry_after}} s")
	if err != nil {
		t.Fatal(err)
	}
	rule := func(name string, o denial.Options) deny {
		o.Status = 429
		a := denial.New(fastlimit.RuleConfig{Name: name, Rate: fastlimit.Rate{N: 1, Per: time.Second}, Burst: 9}, o)
		return deny{answer: a, rendered: renderDenial(a)}
	}
	rules := []deny{
		rule("a", denial.Options{}), rule("b", denial.Options{}),
		rule("a", denial.Options{Page: page, Headers: []denial.HeaderSet{denial.RateLimitLegacy, denial.XRateLimitLimit}}),
	}
	dates := [][]byte{[]byte("Date: Monday\r\n"), []byte("Date: Tuesday\r\n")}
	times := []time.Duration{
		0, 1, time.Millisecond, time.Millisecond + 1, 2 * time.Millisecond, 999*time.Millisecond + 1, time.Second, time.Hour,
		bucket.Never - 875_000, bucket.Never - 675_000, bucket.Never,
	}
	r := rand.New(rand.NewPCG(1, 2)) // the same each time
	var j requestState
	var d *deny
	var date []byte
	var v fastlimit.Decision
	var last bool
	again := 0
	for i := range 200_000 {
		switch r.IntN(12) { // one of them changes, or none does
		case 0:
			d = &rules[r.IntN(3)]
		case 1:
			date = dates[r.IntN(2)]
		case 2:
			v.Remaining = int64(r.IntN(2))
		case 3:
			v.RetryAfter = times[r.IntN(len(times))]
		case 4:
			v.TimeToEmpty = times[r.IntN(len(times))]
		case 5:
			last = r.IntN(2) == 0
		}
		if d == nil || date == nil {
			continue
		}
		if len(j.last.bytes) > 0 {
			again++
		}
		var fresh requestState
		got, want := j.appendDenial([]byte("earlier"), d, date, &v, last), fresh.appendDenial([]byte("earlier"), d, date, &v, last)
		if string(got) != string(want) {
			t.Fatalf("step %d:\n%q, want\n%q", i, got, want)
		}
	}
	if again < 10_000 {
		t.Errorf("%d were taken again", again)
	}
}
