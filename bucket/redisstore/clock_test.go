package redisstore

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/storetest/trial"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// The clock of a real server steps under load: forward, buckets drain; back, no
// time has passed; and takes go on. It takes a C compiler to give a server a
// clock of its own. The race detector needs one anyway, so that is where this
// runs; TestFaults steps buckets instead of clocks.
func TestServerClockSteps(t *testing.T) {
	t.Parallel()
	if !raceEnabled {
		t.Log("run with -race only")
		return
	}
	dir := t.TempDir()
	file, lib := filepath.Join(dir, "offset"), filepath.Join(dir, "clock.so")
	cc, err := exec.Command("go", "env", "CC").Output()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(strings.TrimSpace(string(cc)), "-shared", "-fPIC", "-O2", "-o", lib, "testdata/clock.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	server := redistest.New(t)
	server.SetEnv("LD_PRELOAD="+lib, "CLOCK_OFFSET_FILE="+file)
	server.Run()
	c := brisk(server.Addr, new(testkit.Log))
	c.Timeout = 10 * time.Second // each take is carried out, on a busy machine too
	s := openBrisk(t, c)
	load := trial.StartLoad(t, s)
	load.Progress("works at first")

	shapes := []bucket.Shape{mustShape(t, 10, time.Hour, 1000)}
	for _, a := range []bucket.Algorithm{bucket.SlidingWindow, bucket.SlidingLog} {
		shape, err := trial.ShapeOf(a, 1000, time.Hour, 0)
		if err != nil {
			t.Fatal(err)
		}
		shapes = append(shapes, shape)
	}
	for _, step := range []struct {
		offset int    // s
		level  uint64 // units afterwards, with one more
	}{{0, 1}, {-3600, 2}, {-7200, 3}, {3600, 1}, {600, 2}} {
		// Renamed, for a file that is being written is empty for a moment, which
		// is a step of its own.
		err := errors.Join(os.WriteFile(file+".new", []byte(strconv.Itoa(step.offset)), 0o600), os.Rename(file+".new", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, shape := range shapes {
			r, err := do(s, bucket.Op{Algorithm: shape.Algorithm(), Kind: bucket.Take, Key: shape.Algorithm().String(), Shape: shape, Cost: shape.Unit(), Count: 1})
			level := (r.Level + shape.Unit() - 1) / shape.Unit()
			if shape.Algorithm() == bucket.SlidingWindow {
				previous, current := bucket.Unpack(r.Level) // an hour may end meanwhile
				level = previous + current
			}
			if err != nil || r.Granted != 1 || level != step.level {
				t.Errorf("%v, clock at %d s: %+v, %v; want a level of %d units", shape.Algorithm(), step.offset, r, err, step.level)
			}
		}
		// A reply from before the step may be the last one that was looked at.
		redistest.Eventually(t, fmt.Sprintf("a clock measured at %d s", step.offset), func() bool {
			return s.Stats().ClockOffset.Round(time.Minute) == time.Duration(step.offset)*time.Second
		})
		load.Progress("works after the step")
	}
	load.End()
	load.Audit(charged(t, func(key string) string { return server.Do("GET", key) }), false)
}
