// Package env reads the environment variables by which envoyproxy/ratelimit is configured.
//
// Each variable is one of four kinds:
//
//   - it decides something that fastlimit does: it is read, with upstream's default;
//   - it decides something that fastlimit does not do: setting it is an error;
//   - it only tunes or observes something that fastlimit does in its own way: one warning
//     names those that are set;
//   - it is none of upstream's: it is ignored, since an environment holds much else.
package env

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit/bucket/redisstore"
	"github.com/fastlimit/fastlimit/internal/rls/count"
	"github.com/fastlimit/fastlimit/internal/rls/service"
	"github.com/fastlimit/fastlimit/internal/rls/xds"
	"github.com/fastlimit/fastlimit/sync/gossip"
)

// Settings are what the variables say.
type Settings struct {
	HTTP  string // host:port of /json and /healthcheck
	Debug string // host:port of /rlconfig
	GRPC  string // host:port, or unix:/path

	MaxAge, MaxAgeGrace time.Duration // of a gRPC connection
	TLS                 *TLS          // of gRPC; nil for none

	LogLevel slog.Level
	LogJSON  bool

	Files   Files
	XDS     *xds.Config // in place of files; what it calls is not set
	Merge   bool        // files of one domain
	Start   bool        // before a control plane has sent limits
	Healthy bool        // only with a domain

	Service service.Config
	Clients int // that are counted at a time, for each unit

	EscalateAt int // hits of a counter that are admitted without being counted exactly; 0: none

	Redis  *redisstore.Config // nil: there is none
	Prefix string             // of keys in Redis

	Cluster    *gossip.Config // the nodes that count together without Redis; nil: there is none
	ConfigFile string         // has a section cluster instead; "" if there is none

	Near        float64 // the part of a limit above which hits are near it
	Metrics     string  // host:port of Prometheus' metrics; "" for none
	MetricsPath string
	Jitter      time.Duration // by which keys may live longer
}

// TLS is how gRPC is encrypted.
type TLS struct{ CertFile, KeyFile, ClientCA, ClientSAN string }

// Files is where the configuration is.
type Files struct {
	Dir      string // "": nowhere
	Prefix   string // of the names that count, with dots for slashes
	DotFiles bool
}

// reader reads variables and collects the errors.
type reader struct {
	lookup func(string) (string, bool)
	errs   []error
}

// Read reads all variables. The error joins all that is wrong.
func Read(lookup func(string) (string, bool)) (s Settings, warnings []string, err error) {
	r := &reader{lookup: lookup}
	s = Settings{
		HTTP:  r.address("HOST", "PORT", 8080),
		Debug: r.address("DEBUG_HOST", "DEBUG_PORT", 6070),
		GRPC:  r.address("GRPC_HOST", "GRPC_PORT", 8081),

		MaxAge:      r.age("GRPC_MAX_CONNECTION_AGE", 24*time.Hour),
		MaxAgeGrace: r.age("GRPC_MAX_CONNECTION_AGE_GRACE", time.Hour),
		TLS:         r.tls(),

		LogLevel: r.logLevel(),
		LogJSON:  strings.EqualFold(r.text("LOG_FORMAT", "text"), "json"),

		Files:   r.files(),
		XDS:     r.xds(),
		Merge:   r.bool("MERGE_DOMAIN_CONFIG"),
		Start:   r.bool("FORCE_START_WITHOUT_INITIAL_CONFIG"),
		Healthy: r.bool("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED"),

		Service: service.Config{
			Shadow:          r.bool("SHADOW_MODE"),
			Quota:           r.bool("QUOTA_MODE"),
			StopWhenOver:    r.bool("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT"),
			Metadata:        r.bool("RESPONSE_DYNAMIC_METADATA"),
			Headers:         r.bool("LIMIT_RESPONSE_HEADERS_ENABLED"),
			LimitHeader:     r.text("LIMIT_LIMIT_HEADER", "RateLimit-Limit"),
			RemainingHeader: r.text("LIMIT_REMAINING_HEADER", "RateLimit-Remaining"),
			ResetHeader:     r.text("LIMIT_RESET_HEADER", "RateLimit-Reset"),
		},
		Clients:    r.number("FASTLIMIT_CLIENTS", 1<<20, 1, 1<<30),
		EscalateAt: r.number("FASTLIMIT_ESCALATE_AT", 0, 0, count.MaxEscalateAt),

		Redis:  r.redis(),
		Prefix: r.text("CACHE_KEY_PREFIX", ""),

		Cluster:    r.cluster(),
		ConfigFile: r.configFile(),

		Near:        r.part("NEAR_LIMIT_RATIO", 0.8),
		MetricsPath: r.text("PROMETHEUS_PATH", "/metrics"),
		Jitter:      time.Duration(r.number("EXPIRATION_JITTER_MAX_SECONDS", 300, 0, 1<<30)) * time.Second,
	}
	if path := r.text("GRPC_UDS", ""); path != "" {
		s.GRPC = "unix:" + path
	}
	if r.bool("USE_PROMETHEUS") {
		s.Metrics = r.text("PROMETHEUS_ADDR", ":9090")
	}
	r.refuse()
	return s, r.warnings(&s), errors.Join(r.errs...)
}

// get returns what a variable says, and whether it says something.
func (r *reader) get(name string) (string, bool) {
	text, set := r.lookup(name)
	return text, set && text != ""
}

func (r *reader) fail(name, text, want string) {
	r.errs = append(r.errs, fmt.Errorf("%s=%q: want %s", name, text, want))
}

func (r *reader) text(name, unset string) string {
	if text, set := r.get(name); set {
		return text
	}
	return unset
}

func (r *reader) bool(name string) bool {
	text, set := r.get(name)
	v, err := strconv.ParseBool(text)
	if set && err != nil {
		r.fail(name, text, "true or false")
	}
	return v
}

func (r *reader) number(name string, unset, least, most int) int {
	text, set := r.get(name)
	if !set {
		return unset
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		r.fail(name, text, fmt.Sprintf("a number, %d to %d", least, most))
	}
	return n
}

func (r *reader) part(name string, unset float64) float64 {
	text, set := r.get(name)
	if !set {
		return unset
	}
	n, err := strconv.ParseFloat(text, 32)
	if err != nil || !(n >= 0 && n <= 1) {
		r.fail(name, text, "a number from 0 to 1")
	}
	return n
}

func (r *reader) duration(name string, unset time.Duration) time.Duration {
	text, set := r.get(name)
	if !set {
		return unset
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		r.fail(name, text, "a time such as 90s or 24h")
	}
	return d
}

// age is a duration that may be 0, by which gRPC, and so upstream, means that there is none.
func (r *reader) age(name string, unset time.Duration) time.Duration {
	text, _ := r.get(name)
	if d, err := time.ParseDuration(text); err == nil && d == 0 {
		return 0
	}
	return r.duration(name, unset)
}

func (r *reader) address(host, port string, unset int) string {
	return net.JoinHostPort(r.text(host, "0.0.0.0"), strconv.Itoa(r.number(port, unset, 0, 65535)))
}

func (r *reader) logLevel() slog.Level {
	levels := map[string]slog.Level{
		"panic": slog.LevelError, "fatal": slog.LevelError, "error": slog.LevelError, "warn": slog.LevelWarn, "warning": slog.LevelWarn,
		"info": slog.LevelInfo, "debug": slog.LevelDebug, "trace": slog.LevelDebug,
	}
	text := r.text("LOG_LEVEL", "warn")
	level, known := levels[strings.ToLower(text)]
	if !known {
		r.fail("LOG_LEVEL", text, "error, warn, info or debug")
	}
	return level
}

func (r *reader) tls() *TLS {
	if !r.bool("GRPC_SERVER_USE_TLS") {
		return nil
	}
	t := &TLS{
		CertFile: r.text("GRPC_SERVER_TLS_CERT", ""), KeyFile: r.text("GRPC_SERVER_TLS_KEY", ""),
		ClientCA: r.text("GRPC_CLIENT_TLS_CACERT", ""), ClientSAN: r.text("GRPC_CLIENT_TLS_SAN", ""),
	}
	if t.CertFile == "" || t.KeyFile == "" {
		r.errs = append(r.errs, errors.New("GRPC_SERVER_USE_TLS=true: want GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY too"))
	}
	return t
}

// files has upstream's rule: the files of a folder called config, or those beside it whose
// names begin with "config.".
func (r *reader) files() Files {
	root, sub, app := r.text("RUNTIME_ROOT", "/srv/runtime_data/current"), r.text("RUNTIME_SUBDIRECTORY", ""), r.text("RUNTIME_APPDIRECTORY", "config")
	f := Files{DotFiles: !r.bool("RUNTIME_IGNOREDOTFILES")}
	if _, set := r.get("RUNTIME_WATCH_ROOT"); set && !r.bool("RUNTIME_WATCH_ROOT") {
		f.Dir = filepath.Join(root, sub, app)
	} else if sub != "" {
		f.Dir, f.Prefix = filepath.Join(root, sub), app+"."
	}
	return f
}

// refuse reports variables that decide what fastlimit does not do.
func (r *reader) refuse() {
	if text, set := r.get("BACKEND_TYPE"); set && !strings.EqualFold(text, "redis") {
		r.errs = append(r.errs, fmt.Errorf("BACKEND_TYPE=%q: fastlimit counts in Redis or in its memory: unset it", text))
	}
	if r.bool("REDIS_PERSECOND") {
		r.errs = append(r.errs, errors.New("REDIS_PERSECOND=true: there is no second Redis: unset it"))
	}
	if r.bool("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION") {
		r.errs = append(r.errs, errors.New("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=true: names are verified: unset it, and give Redis a certificate of its name"))
	}
}

// tuning are the variables, and with "*" the families of them, that change no answer.
var tuning = []string{
	"XDS_CLIENT_BACKOFF_RANDOM_FACTOR", "XDS_CLIENT_BACKOFF_JITTER", "LOCAL_CACHE_SIZE_IN_BYTES", "STATS_FLUSH_INTERVAL", "DISABLE_STATS", "EXTRA_TAGS",
	"USE_STATSD", "STATSD_HOST", "STATSD_PORT", "USE_DOG_STATSD", "USE_DOG_STATSD_MOGRIFIERS", "PROMETHEUS_MAPPER_YAML", "PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", "TRACING_ENABLED", "TRACING_SERVICE_NAME", "TRACING_SERVICE_NAMESPACE",
	"TRACING_SERVICE_INSTANCE_ID", "TRACING_EXPORTER_PROTOCOL", "TRACING_SAMPLING_RATE", "REDIS_POOL_SIZE", "REDIS_PIPELINE_WINDOW", "REDIS_PIPELINE_LIMIT",
	"REDIS_TIMEOUT", "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", "REDIS_CLUSTER_PIPELINE_PARALLELISM", "REDIS_POOL_ON_EMPTY_BEHAVIOR",
	"REDIS_STARTUP_INITIAL_INTERVAL", "REDIS_STARTUP_MAX_INTERVAL", "REDIS_STARTUP_MAX_ELAPSED_TIME",
}

func (r *reader) warnings(s *Settings) (all []string) {
	if _, set := r.get("REDIS_URL"); !set && s.Cluster == nil && s.ConfigFile == "" {
		all = append(all, "REDIS_URL is not set: each process counts for itself; REDIS_URL=none says so")
	}
	set := slices.DeleteFunc(slices.Clone(tuning), func(name string) bool {
		text, set := r.get(name)
		return !set || text == "false"
	})
	if len(set) > 0 {
		all = append(all, "without effect here: "+strings.Join(set, ", "))
	}
	return all
}
