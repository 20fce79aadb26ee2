package redisstore

import (
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/step"
	"github.com/fastlimit/fastlimit/bucket/storetest/trial"
)

// FuzzOperate compares the script with the model on a stored value of any bytes and up
// to five operations of one algorithm on it.
func FuzzOperate(f *testing.F) {
	l := newLab(f)
	state := func(level, last, unit, quiet uint64) string {
		return encodeState(step.State{Level: level, Last: last, Unit: unit, Quiet: quiet})
	}
	f.Add("", uint64(1_763_596_800_000_000), uint32(0), uint64(100), uint64(1), uint64(200), uint64(10_000), uint64(1), uint64(0), uint64(0), int64(0), int64(0))
	f.Add(state(1<<52, 0, 1, 0), uint64(1<<52), uint32(0), uint64(1e9), uint64(1), uint64(1), uint64(1), uint64(1<<52), uint64(1<<53), uint64(0), int64(0), int64(1))
	f.Add(state(1, 1<<53-1, 1_000_000, 5), uint64(5), uint32(0o1232), uint64(3), uint64(1), uint64(2), uint64(1_000_000), uint64(1), uint64(0), uint64(5), int64(9), int64(0))
	f.Add(state(666_667, 5, 10, 1<<53-1), uint64(5), uint32(0o31), uint64(1), uint64(86400), uint64(52124), uint64(86_400_000_000), uint64(9), uint64(7), uint64(1), int64(-3), int64(5))
	window := encodeState(step.State{Algorithm: bucket.FixedWindow, Level: 3, Last: 1_763_596_800, Unit: 1_000_000, Quiet: 1_763_596_800})
	f.Add(window, uint64(1_763_596_800_000_000), uint32(0o101232), uint64(5), uint64(0), uint64(1), uint64(2), uint64(9), uint64(4), uint64(1), int64(0), int64(0))
	const now = 1_763_596_800_000_000
	sliding := encodeState(step.State{Algorithm: bucket.SlidingWindow, Level: 3, Previous: 4, Last: now/1_000_000 - 1, Unit: 1_000_000, Quiet: now/1_000_000 - 1})
	f.Add(sliding, uint64(now+3), uint32(0o200000|0o1232), uint64(5), uint64(0), uint64(1), uint64(2), uint64(9), bucket.Pack(1, 4), uint64(1), int64(1), int64(0))
	list := step.State{Algorithm: bucket.SlidingLog, Quiet: 5, Log: step.NewTimes(now-1_000_000, now-999_999, now-500_000, now)}
	for _, v := range []string{encodeState(list), encodeState(list)[:24], encodeState(list)[:17] + "\xff\xff\xff\xff\xff\xff\xff\xff", sliding, "\x05", "\x05" + strings.Repeat("\x00", 9)} {
		f.Add(v, uint64(now), uint32(0o300000|0o1232), uint64(5), uint64(0), uint64(1), uint64(2), uint64(9), uint64(4), uint64(1), int64(1e9), int64(0))
		f.Add(v, uint64(now-7), uint32(0o300000|0o3022), uint64(2), uint64(0), uint64(1), uint64(1), uint64(9), uint64(0), uint64(1), int64(1e9), int64(0))
	}
	f.Add("1:2:3\n", uint64(5), uint32(0o3), uint64(1), uint64(60), uint64(1), uint64(1), uint64(1), uint64(0), uint64(0), int64(0), int64(0))
	f.Fuzz(func(t *testing.T, value string, now uint64, kinds uint32, n, seconds, burst, cost, count, floor, back uint64, age, patience int64) {
		sc, ok := trial.FuzzedScene(value, trial.Fuzzed{Now: now, Kinds: kinds, N: n, Seconds: seconds, Burst: burst, Cost: cost, Count: count, Floor: floor, Back: back, Age: age, Patience: patience})
		if !ok {
			return
		}
		(&lab{t: t, client: l.client}).run([]scene{sc})
	})
}
