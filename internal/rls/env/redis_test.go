package env

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket/redisstore"
)

// TestRedis has upstream's ways to name a Redis.
func TestRedis(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, c := range []struct {
		vars map[string]string
		want redisstore.Config
	}{
		{map[string]string{"REDIS_URL": "redis:6379", "REDIS_SOCKET_TYPE": "tcp"}, redisstore.Config{Addrs: []string{"redis:6379"}, Timeout: 5 * ms}},
		{map[string]string{"REDIS_URL": "redis://u:p@redis:1/2"}, redisstore.Config{URL: "redis://u:p@redis:1/2", Timeout: 5 * ms}},
		{map[string]string{"REDIS_URL": "/var/run/a b.sock"}, redisstore.Config{URL: "unix:///var/run/a%20b.sock", Timeout: 5 * ms}},
		{
			map[string]string{"REDIS_URL": "main,s1:1,s2:2", "REDIS_TYPE": "sentinel", "REDIS_AUTH": "secret", "REDIS_SENTINEL_AUTH": "u:p:q"},
			redisstore.Config{MasterName: "main", Addrs: []string{"s1:1", "s2:2"}, Password: "secret", SentinelUsername: "u", SentinelPassword: "p:q", Timeout: 5 * ms},
		},
		{
			map[string]string{"REDIS_URL": "a:1,b:2", "REDIS_TYPE": "CLUSTER", "REDIS_AUTH": "user:pass", "REDIS_TLS": "true", "FASTLIMIT_STORE_TIMEOUT": "9ms"},
			redisstore.Config{Cluster: true, Addrs: []string{"a:1", "b:2"}, Username: "user", Password: "pass", TLS: true, Timeout: 9 * ms},
		},
	} {
		s, warnings, err := readFrom(c.vars)
		if err != nil || len(warnings) > 0 || !reflect.DeepEqual(s.Redis, &c.want) {
			t.Errorf("%v: %v, %v\ngot  %+v\nwant %+v", c.vars, err, warnings, s.Redis, c.want)
		}
	}
}

// TestRedisMistakes name the variable, and show no password.
func TestRedisMistakes(t *testing.T) {
	t.Parallel()
	for want, vars := range map[string]map[string]string{
		`REDIS_TYPE="RING": want SINGLE, SENTINEL or CLUSTER`:   {"REDIS_URL": "a:1", "REDIS_TYPE": "ring"},
		"REDIS_URL: 2 addresses of one server: write host:port": {"REDIS_URL": "a:1,b:2"},
		"REDIS_URL: no server: write host:port":                 {"REDIS_URL": "main", "REDIS_TYPE": "SENTINEL"},
		"REDIS_SENTINEL_AUTH: needs master_name":                {"REDIS_URL": "a:1", "REDIS_SENTINEL_AUTH": "secret"},
		`REDIS_TLS_CACERT: "/none" no such file: name`:          {"REDIS_URL": "a:1", "REDIS_TLS": "1", "REDIS_TLS_CACERT": "/none"},
		`FASTLIMIT_STORE_TIMEOUT="0s": want a time`:             {"REDIS_URL": "a:1", "FASTLIMIT_STORE_TIMEOUT": "0s"},
		"REDIS_URL: an address is not host:port":                {"REDIS_URL": "user:secret@a:1"},
		"REDIS_URL: an address is not host:port: ":              {"REDIS_URL": "main,a:1,redis://:secret@b:2", "REDIS_TYPE": "SENTINEL"},
		"REDIS_URL: an address is not host:port: R":             {"REDIS_URL": "redis://u:secret@a:1,b:2", "REDIS_TYPE": "CLUSTER"},
	} {
		vars["REDIS_AUTH"] = "user:hidden"
		_, _, err := readFrom(vars)
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v: %v, want %s", vars, err, want)
		}
	}
}
