//go:build !linux

package banbench

import (
	"context"
	"errors"

	"github.com/fastlimit/fastlimit/bench/report"
)

var errLinux = errors.New("bench: bans are measured on Linux only")

// Check reports an error: there are no network namespaces.
func (Options) Check() error { return errLinux }

// Again does nothing.
func Again() (done bool, err error) { return false, nil }

// Versions knows none.
func (Options) Versions(context.Context) map[string]string { return nil }

// Run measures, on Linux only.
func Run(context.Context, Options) ([]report.Result, error) { return nil, errLinux }
