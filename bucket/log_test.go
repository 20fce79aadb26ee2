package bucket

import (
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

func mustLog(t *testing.T, n uint64, per time.Duration) Shape {
	t.Helper()
	s, err := NewSlidingLog(n, per)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A full log tells when its oldest unit expires: by the word that a denial returns, and by its times.
func TestWaitOfAFullLog(t *testing.T) {
	t.Parallel()
	const period, now = uint64(time.Second / time.Microsecond), uint64(1) << 40
	log := mustLog(t, 3, time.Second)
	table, d := tableOf(t, log), sketch.Digest{Pos: 7 << 40, ID: 9}
	for _, at := range []uint64{now, now + 10, now + 30} {
		if _, ok := table.Take(d, at, 1); !ok {
			t.Fatalf("denied at %d", at-now)
		}
	}
	word, ok := table.Take(d, now+50, 1)
	if wait := log.LogWait(word, now+50); ok || wait != period-50 {
		t.Errorf("%t, and %d µs to wait, want %d", ok, wait, period-50)
	}
	free, retry, empty := table.Log(d, now+50, 2)
	if free != 0 || retry != period+10-50 || empty != period+30-50 {
		t.Errorf("%d free, two in %d µs, empty in %d; want 0, %d, %d", free, retry, empty, period+10-50, period+30-50)
	}
	if _, ok := table.Take(d, now+period-1, 1); ok {
		t.Error("admitted one µs before the oldest expires")
	}
	if _, ok := table.Take(d, now+period, 1); !ok {
		t.Error("denied when the oldest has expired")
	}
}

// Who waits for a log of a store waits as long as its clock may lag, and for at least a µs.
func TestLogWait(t *testing.T) {
	t.Parallel()
	log := mustLog(t, 3, time.Second)
	stored := log.WithSlack(40 * time.Microsecond)
	lag := 2*(stored.period>>DriftShift) + 40
	for _, tt := range []struct {
		shape           Shape
		word, now, want uint64
	}{
		{log, 1000, 900, 100},
		{log, 1000, 1000, 1},
		{log, 1000, 5000, 1},
		{stored, 1000, 900, 100 + lag},
		{stored, 1000, 1000 + lag, 1},
	} {
		if wait := tt.shape.LogWait(tt.word, tt.now); wait != tt.want {
			t.Errorf("word %d at %d: %d µs, want %d", tt.word, tt.now, wait, tt.want)
		}
	}
	table, d, now := tableOf(t, stored), sketch.Digest{Pos: 7 << 40, ID: 9}, uint64(1)<<40
	table.Take(d, now, 2)
	for cost, want := range map[uint64]uint64{1: 0, 2: stored.period - 50 + lag} {
		if _, retry, _ := table.Log(d, now+50, cost); retry != want {
			t.Errorf("%d more in %d µs, want %d", cost, retry, want)
		}
	}
}

// What a store reports of a client that the table does not know denies it until then.
func TestReportOfAnUnknownLog(t *testing.T) {
	t.Parallel()
	table, d, now := tableOf(t, mustLog(t, 3, time.Second).WithSlack(40*time.Microsecond)), sketch.Digest{Pos: 7 << 40, ID: 9}, uint64(1)<<40
	if table.Settle(d, now, 0, now); table.Lookup(d) != 0 {
		t.Error("a bucket without a charge that denies nothing")
	}
	if word := table.Settle(d, now, 0, now+500); word != now+500 {
		t.Errorf("settled at %d, want %d", word, now+500)
	}
	if word, ok := table.Take(d, now+499, 1); ok || word != now+500 {
		t.Errorf("%t before the time of the report, %d", ok, word)
	}
	if _, ok := table.Take(d, now+500, 1); !ok {
		t.Error("denied at the time of the report")
	}
}
