package redisbench

import (
	"cmp"
	"time"

	"github.com/fastlimit/fastlimit/bench/report"
)

// FaultOptions configure [RunFaults]. Zero fields mean defaults.
type FaultOptions struct {
	// Redis is the program that is started.
	Redis string
	// Timeout is how long a request may wait for Redis. 0 means 5 ms, the
	// default of a configuration.
	Timeout time.Duration
	// Duration of a fault, beside the time that it takes to strike and to get
	// over. 0 means 1 s.
	Duration time.Duration
	// Only are the names of faults. None means all.
	Only     []string
	Progress report.Progress
}

func (o FaultOptions) withDefaults() FaultOptions {
	o.Redis = cmp.Or(o.Redis, "redis-server")
	o.Timeout = cmp.Or(o.Timeout, 5*time.Millisecond)
	o.Duration = cmp.Or(o.Duration, time.Second)
	return o
}
