package legacy_test

import (
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit/vectors"
)

// Every vector of the sources, on buckets in memory. On Redis they run in package
// redisstore, where its clock can be told what time it is.
func TestVectorsInMemory(t *testing.T) {
	t.Parallel()
	vectors.Run(t, nil)
}
