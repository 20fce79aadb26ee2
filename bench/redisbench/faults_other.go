//go:build !linux

package redisbench

import (
	"context"
	"errors"

	"github.com/fastlimit/fastlimit/bench/report"
)

// RunFaults strikes a Redis with every fault, on Linux only.
func RunFaults(context.Context, FaultOptions) ([]report.Result, error) {
	return nil, errors.New("bench: faults of Redis are measured on Linux only")
}
