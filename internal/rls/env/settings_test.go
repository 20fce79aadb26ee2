package env

import (
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/rls/service"
)

func readFrom(vars map[string]string) (Settings, []string, error) {
	return Read(func(name string) (string, bool) {
		text, ok := vars[name]
		return text, ok
	})
}

// TestDefaults are upstream's.
func TestDefaults(t *testing.T) {
	t.Parallel()
	got, warnings, err := readFrom(map[string]string{"REDIS_URL": "none", "PATH": "/bin", "HOST": ""})
	want := Settings{
		HTTP: "0.0.0.0:8080", Debug: "0.0.0.0:6070", GRPC: "0.0.0.0:8081", MaxAge: 24 * time.Hour, MaxAgeGrace: time.Hour,
		LogLevel: slog.LevelWarn, Files: Files{DotFiles: true}, Clients: 1 << 20, Jitter: 300 * time.Second, Near: 0.8, MetricsPath: "/metrics",
		Service: service.Config{LimitHeader: "RateLimit-Limit", RemainingHeader: "RateLimit-Remaining", ResetHeader: "RateLimit-Reset"},
	}
	if err != nil || len(warnings) > 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("%v %v\ngot  %+v\nwant %+v", err, warnings, got, want)
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	got, _, err := readFrom(map[string]string{
		"HOST": "::1", "PORT": "1", "DEBUG_HOST": "d", "DEBUG_PORT": "2", "GRPC_HOST": "g", "GRPC_PORT": "3", "GRPC_MAX_CONNECTION_AGE": "5m",
		"GRPC_MAX_CONNECTION_AGE_GRACE": "7s", "GRPC_SERVER_USE_TLS": "t", "GRPC_SERVER_TLS_CERT": "c", "GRPC_SERVER_TLS_KEY": "k",
		"GRPC_CLIENT_TLS_CACERT": "a", "GRPC_CLIENT_TLS_SAN": "s", "LOG_LEVEL": "DEBUG", "LOG_FORMAT": "JSON", "RUNTIME_ROOT": "/r",
		"RUNTIME_SUBDIRECTORY": "sub", "RUNTIME_IGNOREDOTFILES": "1", "MERGE_DOMAIN_CONFIG": "true",
		"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED": "true", "SHADOW_MODE": "true", "QUOTA_MODE": "true", "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT": "true",
		"RESPONSE_DYNAMIC_METADATA": "true", "LIMIT_RESPONSE_HEADERS_ENABLED": "true", "LIMIT_LIMIT_HEADER": "L", "LIMIT_REMAINING_HEADER": "R",
		"LIMIT_RESET_HEADER": "S", "FASTLIMIT_CLIENTS": "9", "FASTLIMIT_ESCALATE_AT": "7", "CONFIG_TYPE": "FILE", "BACKEND_TYPE": "redis", "REDIS_URL": "NONE", "CACHE_KEY_PREFIX": "p", "USE_PROMETHEUS": "true", "PROMETHEUS_ADDR": ":1", "PROMETHEUS_PATH": "/m", "NEAR_LIMIT_RATIO": "0.5", "EXPIRATION_JITTER_MAX_SECONDS": "9",
	})
	want := Settings{
		HTTP: "[::1]:1", Debug: "d:2", GRPC: "g:3", MaxAge: 5 * time.Minute, MaxAgeGrace: 7 * time.Second, TLS: &TLS{"c", "k", "a", "s"},
		LogLevel: slog.LevelDebug, LogJSON: true, Files: Files{Dir: "/r/sub", Prefix: "config."}, Merge: true, Healthy: true, Clients: 9, EscalateAt: 7, Prefix: "p", Jitter: 9 * time.Second, Near: 0.5, Metrics: ":1", MetricsPath: "/m",
		Service: service.Config{Shadow: true, Quota: true, StopWhenOver: true, Metadata: true, Headers: true, LimitHeader: "L", RemainingHeader: "R", ResetHeader: "S"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, got, want)
	}
}

// TestNoAge: 0 is no bound, as in gRPC.
func TestNoAge(t *testing.T) {
	t.Parallel()
	got, _, err := readFrom(map[string]string{"GRPC_MAX_CONNECTION_AGE": "0", "GRPC_MAX_CONNECTION_AGE_GRACE": "0s"})
	if err != nil || got.MaxAge != 0 || got.MaxAgeGrace != 0 {
		t.Errorf("%v, %v, %v", got.MaxAge, got.MaxAgeGrace, err)
	}
}

// TestFiles has the two ways in which upstream looks for files.
func TestFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		vars map[string]string
		want Files
	}{
		{map[string]string{"RUNTIME_ROOT": "/r"}, Files{DotFiles: true}},
		{map[string]string{"RUNTIME_ROOT": "/r", "RUNTIME_SUBDIRECTORY": "s", "RUNTIME_APPDIRECTORY": "x"}, Files{"/r/s", "x.", true}},
		{map[string]string{"RUNTIME_ROOT": "/r", "RUNTIME_SUBDIRECTORY": "s", "RUNTIME_WATCH_ROOT": "false"}, Files{"/r/s/config", "", true}},
		{map[string]string{"RUNTIME_ROOT": "/r", "RUNTIME_WATCH_ROOT": "0"}, Files{"/r/config", "", true}},
	} {
		if got, _, err := readFrom(c.vars); err != nil || got.Files != c.want {
			t.Errorf("%v: %v, %+v", c.vars, err, got.Files)
		}
	}
}

// TestMistakes are all reported, each with the name of its variable.
func TestMistakes(t *testing.T) {
	t.Parallel()
	bad := map[string]string{
		"PORT": "65536", "GRPC_PORT": "x", "GRPC_MAX_CONNECTION_AGE": "-1s", "LOG_LEVEL": "loud", "SHADOW_MODE": "maybe", "FASTLIMIT_CLIENTS": "0", "FASTLIMIT_ESCALATE_AT": "-1",
		"CONFIG_TYPE": "REST", "BACKEND_TYPE": "memcache", "REDIS_PERSECOND": "true", "GRPC_SERVER_USE_TLS": "true",
		"RUNTIME_WATCH_ROOT": "x", "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION": "true", "EXPIRATION_JITTER_MAX_SECONDS": "-1", "NEAR_LIMIT_RATIO": "NaN",
	}
	_, _, err := readFrom(bad)
	if err == nil {
		t.Fatal("accepted")
	}
	for name := range bad {
		if strings.Count("\n"+err.Error(), "\n"+name+"=") != 1 {
			t.Errorf("%s is not reported once:\n%v", name, err)
		}
	}
}

// TestTuning: what changes no answer is one warning.
func TestTuning(t *testing.T) {
	t.Parallel()
	_, warnings, err := readFrom(map[string]string{"REDIS_URL": "none", "REDIS_POOL_SIZE": "5", "USE_STATSD": "true", "TRACING_ENABLED": "false", "TRACING_SERVICE_NAME": ""})
	if err != nil || len(warnings) != 1 || warnings[0] != "without effect here: USE_STATSD, REDIS_POOL_SIZE" {
		t.Errorf("%v %v", warnings, err)
	}
	if _, warnings, _ = readFrom(nil); len(warnings) != 1 || !strings.HasPrefix(warnings[0], "REDIS_URL is not set") {
		t.Errorf("%v", warnings)
	}
}
