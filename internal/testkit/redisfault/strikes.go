//go:build linux

package redisfault

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

var slowLoading = []string{"--loading-process-events-interval-bytes", "1024"}

// slowRestart restarts the server with a snapshot that takes 3 s to load.
func slowRestart(s *Site) {
	s.admin.Do("EVAL", "for i = 1, 3000 do redis.call('SET', 'filler' .. i, string.rep('x', 1100)) end", "0")
	s.admin.Do("CONFIG", "SET", "rdbcompression", "no")
	s.admin.Do("SAVE")
	s.server.Kill()
	s.server.SetArgs(append([]string{"--key-load-delay", "1000"}, slowLoading...)...)
	s.server.RunNoWait()
	redistest.Eventually(s.t, "the server loads", func() bool {
		r, err := s.server.Try("PING")
		return err == nil && strings.HasPrefix(r, "-LOADING")
	})
}

// failedSnapshot makes BGSAVE fail by removing its directory.
func failedSnapshot(s *Site) {
	dir := filepath.Join(s.server.Dir, "gone")
	if err := os.Mkdir(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	s.admin.Do("CONFIG", "SET", "dir", dir)
	if err := os.Remove(dir); err != nil {
		s.t.Fatal(err)
	}
	s.admin.Do("CONFIG", "SET", "save", "3600 1")
	s.admin.Do("BGSAVE")
}

// evict stores filler keys and then leaves room for half of them, so that random
// keys are evicted.
func evict(s *Site) {
	const filler = 4 << 20
	used := func() int { return s.info("memory", "used_memory") }
	before := used()
	s.admin.Do("EVAL", fmt.Sprintf("for i = 1, %d do redis.call('SET', 'filler' .. i, string.rep('x', 1000), 'PX', 600000) end", filler/1000), "0")
	s.admin.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
	s.admin.Do("CONFIG", "SET", "maxmemory", strconv.Itoa(before+filler/2))
	redistest.Eventually(s.t, "keys are evicted", func() bool { return s.info("stats", "evicted_keys") > 1000 })
}

// info is a number of INFO.
func (s *Site) info(section, field string) int {
	_, v, _ := strings.Cut("\n"+s.admin.Do("INFO", section), "\n"+field+":")
	v, _, _ = strings.Cut(v, "\r")
	n, err := strconv.Atoi(v)
	if err != nil {
		s.t.Fatalf("INFO %s: %s: %v", section, field, err)
	}
	return n
}

func ownAllSlots(s *Site) {
	s.admin.Do("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	redistest.Eventually(s.t, "the cluster serves", func() bool {
		return strings.Contains(s.admin.Do("CLUSTER", "INFO"), "cluster_state:ok")
	})
}

func becomeCluster(s *Site) {
	s.server.Kill()
	s.server.SetArgs("--cluster-enabled", "yes")
	s.server.Run()
	s.admin = s.server.Session()
	ownAllSlots(s)
}

// noFiles stops this process from opening files and sockets; those that are open
// still work.
func noFiles(s *Site) {
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		s.t.Fatal(err)
	}
	set := func(l syscall.Rlimit) {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
			s.t.Fatal(err)
		}
	}
	set(syscall.Rlimit{Cur: 3, Max: before.Max})
	s.undo = func() { set(before) }
}

// shift is what is left of buckets after a step of the server's clock. The
// scripts see a clock in nothing but the times in a bucket and its expiry, so
// that moving these back is moving the clock forward. A window that lasts longer
// than the step has none but the expiry.
const shift = `
local LEAKY, LOG = 1, 5 -- versions of what is stored
local step = tonumber(ARGV[1])
for _, key in ipairs(redis.call('KEYS', 'fastlimit:*')) do
  local value = redis.call('GET', key)
  local version = string.byte(value)
  local first, last = 10, version == LEAKY and 10 or version == LOG and #value or 0
  for at = first, last, 8 do
    local time = struct.unpack('<d', value, at)
    value = string.sub(value, 1, at - 1) .. struct.pack('<d', time - step) .. string.sub(value, at + 8)
  end
  local ttl = redis.call('PTTL', key) - step / 1000
  if ttl > 0 then
    redis.call('SET', key, value, 'PX', string.format('%.0f', ttl))
  else
    redis.call('DEL', key)
  end
end`

func stepClock(by time.Duration) func(*Site) {
	return command("EVAL", shift, "0", strconv.FormatInt(by.Microseconds(), 10))
}
