//go:build !linux

package load

import (
	"context"
	"errors"
)

// Spin runs the load, on Linux only.
func Spin(context.Context, SpinConfig) (*SpinOutcome, error) {
	return nil, errors.New("bench: a spinning load needs Linux")
}
