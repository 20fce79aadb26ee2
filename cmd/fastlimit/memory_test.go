package main

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/ban/nft"
	"github.com/fastlimit/fastlimit/bucket/redisstore"
	"github.com/fastlimit/fastlimit/internal/bans"
	"github.com/fastlimit/fastlimit/internal/config"
	"github.com/fastlimit/fastlimit/internal/testkit/faultproxy"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server"
	"github.com/fastlimit/fastlimit/sync/gossip"
)

func TestPlannedMemory(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	plan := &fastlimit.Plan{Memory: 128 * mib, Rules: []limit.RulePlan{{TopTalkers: 1024}, {TopTalkers: 1024}}}
	sc := &server.Config{Listeners: make([]server.Listener, 2), Connections: server.Connections{Max: 1000}}
	const heads = 32 * mib
	waits := config.Config{Limits: fastlimit.Config{Wait: fastlimit.WaitLimits{Total: 500}}}
	waits.Policy.Rules = []policy.RuleSpec{{}, {Limit: fastlimit.RuleConfig{MaxWait: time.Second}}}
	const conns, own = 1000*server.ConnectionBytes + heads + bans.Memory, 2 * 1024 * localSlot
	for name, tt := range map[string]struct {
		cfg  config.Config
		want memoryUse
	}{
		"alone":   {config.Config{}, memoryUse{128*mib + own, conns}},
		"waits":   {waits, memoryUse{128*mib + own, conns + 500*limit.WaiterBytes}},
		"redis":   {config.Config{Redis: &redisstore.Config{}}, memoryUse{128*mib + own, conns + storeBytes}},
		"kernel":  {config.Config{Kernel: &config.Kernel{Config: nft.Config{Max: 1000}}}, memoryUse{128*mib + own, conns + 320_000}},
		"cluster": {config.Config{Cluster: &config.Cluster{Config: gossip.Config{MaxNodes: 32}}}, memoryUse{128*mib + own, conns + 2*1024*32*mirrorSlot}},
	} {
		if got := plannedMemory(&tt.cfg, plan, sc); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
	sc.Connections.Max = 0
	if got := sc.ConnectionMemory(); got != 16384*server.ConnectionBytes+heads {
		t.Errorf("%d bytes for the default of connections", got)
	}
	for _, tt := range []struct {
		use     memoryUse
		limit   int64
		percent int
	}{
		{memoryUse{128 * mib, 320 * mib}, (128 + 400 + 32) * mib, 20},
		{memoryUse{1 * mib, 20 * mib}, (1 + 25 + 32) * mib, 96},
		{memoryUse{4096 * mib, 0}, (4096 + 32) * mib, minGCPercent},
	} {
		if l, p := tt.use.limit(), tt.use.gcPercent(); l != tt.limit || p != tt.percent {
			t.Errorf("%+v: limit %d, %d %%, want %d and %d", tt.use, l, p, tt.limit, tt.percent)
		}
	}
}

// goInfo is what /v1/info tells of Go's memory.
func (p *process) goInfo(t *testing.T) server.GoMemory {
	t.Helper()
	var info struct{ Memory struct{ Go server.GoMemory } }
	_, body := get(t, http.DefaultClient, "http://"+p.admin+"/v1/info")
	if err := json.Unmarshal([]byte(body), &info); err != nil {
		t.Fatal(err)
	}
	return info.Memory.Go
}

// The heap that Go lets grow follows the configuration, and the operator where
// that one says so.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "a.yaml", "memory: 128MiB\nrules: [{name: r, key: ip, rate: 1/m, burst: 20}]\n")
	const mib, none = 1 << 20, 1<<63 - 1
	ours := server.GoMemory{LimitBytes: (128+32)*mib + (16384*server.ConnectionBytes+(32+128/8)*mib+bans.Memory)*5/4, GCPercent: 20}
	for _, tt := range []struct {
		env  string
		want server.GoMemory
	}{
		{"", ours},
		{"GOMEMLIMIT=200MiB", server.GoMemory{LimitBytes: 200 * mib, GCPercent: 20}},
		{"GOMEMLIMIT=off", server.GoMemory{LimitBytes: none, GCPercent: 20}},
		{"GOGC=50", server.GoMemory{LimitBytes: ours.LimitBytes, GCPercent: 50}},
		{"GOGC=off", server.GoMemory{LimitBytes: ours.LimitBytes, GCPercent: -1}},
	} {
		t.Run(tt.env, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(binary, "serve", "-c", file, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
			cmd.Env = append(os.Environ(), tt.env)
			p := start(t, cmd)
			got := p.goInfo(t)
			if off := got.LimitBytes - tt.want.LimitBytes; off > 1<<19 || off < -1<<19 || got.GCPercent != tt.want.GCPercent { // tables are whole sets
				t.Errorf("%+v, want %+v", got, tt.want)
			}
			if goal := p.metric(t, "go_memstats_next_gc_bytes"); tt.env == "" && goal > 190*mib {
				t.Errorf("the heap may grow to %.0f MiB for 128 MiB of tables", goal/mib)
			}
		})
	}
}

// A Redis farther away than redis.timeout is said at the start, with the fix, and
// shown.
func TestRedisIsTooFarAway(t *testing.T) {
	t.Parallel()
	const delay = 60 * time.Millisecond
	proxy := faultproxy.New(t, redistest.Start(t).Addr, 1)
	proxy.Set(t, faultproxy.Fault{Delay: delay})
	file := writeFile(t, "r.yaml", "redis: {url: \"redis://"+proxy.Addr()+"\", timeout: 20ms}\nrules: [{name: r, key: ip, rate: 10/s, burst: 5}]\n")
	p := serve(t, "-c", file)
	redistest.Eventually(t, "a warning", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return strings.Contains(p.log.String(), "redis is too far away for redis.timeout") && strings.Contains(p.log.String(), "raise redis.timeout to ")
	})
	var info struct {
		Redis struct {
			State    string
			Distance float64 `json:"distance_seconds"`
			Timeout  float64 `json:"timeout_seconds"`
		}
	}
	_, body := get(t, http.DefaultClient, "http://"+p.admin+"/v1/info")
	if err := json.Unmarshal([]byte(body), &info); err != nil || info.Redis.Distance < delay.Seconds() || info.Redis.Timeout != 0.02 || info.Redis.State == "" {
		t.Errorf("%+v, %v; of %s", info, err, body)
	}
	if d := p.metric(t, "fastlimit_redis_distance_seconds"); d < delay.Seconds() {
		t.Errorf("distance %v s", d)
	}
	if d := p.metric(t, "fastlimit_redis_timeout_seconds"); d != 0.02 {
		t.Errorf("timeout %v s", d)
	}
	if p.metric(t, "fastlimit_redis_late_operations_total") < 0 {
		t.Error("late operations are not counted")
	}
}
