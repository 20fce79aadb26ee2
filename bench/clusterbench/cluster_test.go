package clusterbench

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]Options{
		"1 clients":          {Keys: []int64{1}},
		"0s":                 {Interval: time.Second, Duration: time.Nanosecond},
		"MaxBytes 10":        {MaxBytes: 10},
		"TopTalkers: -4":     {TopTalkers: -4},
		"-1 requests/s":      {PerSecond: -1},
		"Nodes: 1000000":     {Nodes: 1e6},
		"told every 1ns":     {Interval: 1},
		"99999999 clients":   {Keys: []int64{99_999_999}},
		"MaxBytes 999999999": {MaxBytes: 999_999_999},
	} {
		if err := o.Check(); want != "0s" && (err == nil || !strings.Contains(err.Error(), want)) || err == nil {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	o := Options{Keys: []int64{10}, PerSecond: 1000, Progress: func(done, _ int, _ string) {
		if done == 1 {
			cancel(why)
		}
	}}
	results, err := Run(ctx, o)
	if !errors.Is(err, why) || len(results) != 1 {
		t.Errorf("%d results, %v", len(results), err)
	}
}
