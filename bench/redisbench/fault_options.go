package redisbench

import (
	"time"

	"github.com/fastlimit/fastlimit/bench/report"
)

// FaultOptions configure [RunFaults]. Zero fields mean defaults.
type FaultOptions struct {
	Redis    string          `default:"redis-server"` // the program that is started
	Timeout  time.Duration   `default:"5ms"`          // how long a request may wait for Redis
	Duration time.Duration   `default:"1s"`           // of a fault, beside the time to strike and to get over it
	Only     []string        `kong:"-"`               // names of faults; none means all
	Progress report.Progress `kong:"-"`
}
