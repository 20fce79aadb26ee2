package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// A new password for Redis takes a reload, or nothing where the file is watched, and no restart.
func TestReloadLogsInAnew(t *testing.T) {
	t.Parallel()
	for _, watch := range []bool{false, true} {
		redis := redistest.Start(t)
		redis.Do("ACL", "SETUSER", "node", "on", ">first", "~*", "+@all")
		secret := filepath.Join(t.TempDir(), "password")
		write := func(password string) {
			if err := os.WriteFile(secret, []byte(password+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("first")
		text := fmt.Sprintf("redis: {url: \"redis://node@%s\", password_file: %q}\nwatch: %t\nrules: [{name: per-ip, rate: 1000/s, burst: 1000, escalate_at: 0}]\n", redis.Addr, secret, watch)
		r := serveReloading(t, text)
		r.status()
		redis.Do("ACL", "SETUSER", "node", "resetpass", ">second")
		redis.Do("CLIENT", "KILL", "USER", "node")
		redistest.Eventually(t, "that shows", func() bool {
			r.status()
			return r.metric(t, "fastlimit_redis_up") == 0
		})
		write("second")
		if !watch {
			r.reloads(text)
		}
		r.waitLog("msg=reloaded")
		refused := func() float64 { return r.metric(t, `fastlimit_redis_errors_total{class="auth"}`) }
		before, up := refused(), 0.0
		redistest.Eventually(t, "Redis is asked again", func() bool {
			up = r.metric(t, "fastlimit_redis_up")
			return up == 1 || refused() > before+2 // those before may have been under way
		})
		if up != 1 {
			t.Fatalf("watch %t: it is refused as before", watch)
		}
	}
}
