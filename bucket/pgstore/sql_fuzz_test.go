package pgstore

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/step"
	"github.com/fastlimit/fastlimit/bucket/storetest/trial"
)

// stateOf is the row that some bytes describe: the algorithm, four numbers, and of a
// log as many times as are left.
func stateOf(b []byte) step.State {
	if len(b) == 0 {
		return step.State{}
	}
	var n [4]uint64
	st := step.State{Algorithm: trial.Algorithms[int(b[0])%len(trial.Algorithms)]}
	b = b[1:]
	for i := 0; i < len(n) && len(b) >= 8; i++ {
		n[i], b = binary.LittleEndian.Uint64(b), b[8:]
	}
	st.Level, st.Last, st.Unit, st.Quiet = n[0], n[1], n[2]&safe, n[3]
	_, st.Previous = bucket.Unpack(n[0])
	var times []uint64
	for ; len(b) >= 8; b = b[8:] {
		times = append(times, binary.LittleEndian.Uint64(b)&safe)
	}
	slices.Sort(times)
	st.Log = step.NewTimes(times...)
	return sound(st)
}

// bytesOf are bytes that stateOf makes a state of.
func bytesOf(algorithm byte, numbers ...uint64) []byte {
	b := []byte{algorithm}
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return b
}

// FuzzOperate compares the function with the model on a row with any contents and up
// to five operations of one algorithm on it, in one batch.
func FuzzOperate(f *testing.F) {
	l := newLab(f)
	const now = 1_763_596_800_000_000
	f.Add([]byte(nil), uint64(now), uint32(0), uint64(100), uint64(0), uint64(200), uint64(10_000), uint64(1), uint64(0), uint64(0), int64(0), int64(0))
	f.Add(bytesOf(0, 1<<52, 0, 1, 0), uint64(1<<52), uint32(0), uint64(1e9), uint64(0), uint64(1), uint64(1), uint64(1<<52), uint64(1<<53), uint64(0), int64(0), int64(1))
	f.Add(bytesOf(0, 1, 1<<53-1, 1_000_000, 5), uint64(5), uint32(0o1232), uint64(3), uint64(0), uint64(2), uint64(1_000_000), uint64(1), uint64(0), uint64(5), int64(9), int64(0))
	f.Add(bytesOf(0, 666_667, 5, 10, 1<<53-1), uint64(5), uint32(0o31), uint64(1), uint64(86399), uint64(52124), uint64(86_400_000_000), uint64(9), uint64(7), uint64(1), int64(-3), int64(5))
	window := bytesOf(1, 3, now/1_000_000, 1_000_000, now/1_000_000)
	f.Add(window, uint64(now), uint32(0o101232), uint64(5), uint64(0), uint64(1), uint64(2), uint64(9), uint64(4), uint64(1), int64(0), int64(0))
	sliding := bytesOf(2, bucket.Pack(3, 4), now/1_000_000-1, 1_000_000, now/1_000_000-1)
	f.Add(sliding, uint64(now+3), uint32(0o201232), uint64(5), uint64(0), uint64(1), uint64(2), uint64(9), bucket.Pack(1, 4), uint64(1), int64(1), int64(0))
	log := bytesOf(3, 0, 0, 0, 5, now-1_000_000, now-999_999, now-500_000, now)
	for _, row := range [][]byte{log, sliding, log[:41]} {
		f.Add(row, uint64(now), uint32(0o301232), uint64(5), uint64(0), uint64(1), uint64(2), uint64(9), uint64(4), uint64(1), int64(1e9), int64(0))
		f.Add(row, uint64(now-7), uint32(0o303022), uint64(2), uint64(0), uint64(1), uint64(1), uint64(9), uint64(0), uint64(1), int64(1e9), int64(0))
	}
	f.Fuzz(func(t *testing.T, row []byte, now uint64, kinds uint32, n, seconds, burst, cost, count, floor, back uint64, age, patience int64) {
		if len(row) > 1<<12 {
			return
		}
		sc, ok := trial.FuzzedScene(stateOf(row), trial.Fuzzed{Now: now, Kinds: kinds, N: n, Seconds: seconds, Burst: burst, Cost: cost, Count: count, Floor: floor, Back: back, Age: age, Patience: patience})
		if !ok {
			return
		}
		(&lab{t: t, conn: l.conn, sql: l.sql}).run([]scene{sc})
	})
}
