package registry_test

import (
	"testing"

	"github.com/fastlimit/fastlimit/bucket/registry"
	"github.com/fastlimit/fastlimit/bucket/registry/registrytest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	m := new(registry.Memory)
	registrytest.Run(t, func() registry.Store { return m }, func() { m.Forget() })
}
