//go:build !linux

package postgresbench

import (
	"context"
	"errors"

	"github.com/fastlimit/fastlimit/bench/report"
)

var errLinux = errors.New("bench: PostgreSQL is measured on Linux only")

// Check reports an error if there is no PostgreSQL to start.
func (Options) Check() error { return errLinux }

// Version is what the server says it is, "" where that is not known.
func (Options) Version(context.Context) string { return "" }

// Run measures, on Linux only.
func Run(context.Context, Options) ([]report.Result, error) { return nil, errLinux }
