package redisstore

import (
	"testing"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/storetest/trial"
)

// charged reads what a load has charged by what Redis holds for a key.
func charged(t testing.TB, get func(key string) string) trial.Charged {
	return func(key string, shape bucket.Shape) uint64 {
		t.Helper()
		v := get(defaultPrefix + key)
		if v == "" {
			return 0
		}
		s, ok := parseState(v)
		if !ok {
			t.Fatalf("%s holds %q", key, v)
		}
		return (s.Level+shape.Unit()-1)/shape.Unit() + s.Previous + uint64(s.Log.Len())
	}
}
