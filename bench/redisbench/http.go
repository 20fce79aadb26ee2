package redisbench

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/fastlimit/fastlimit/bench/defaults"
	"github.com/fastlimit/fastlimit/bench/load"
	"github.com/fastlimit/fastlimit/bench/proc"
	"github.com/fastlimit/fastlimit/bench/report"
	"github.com/redis/go-redis/v9"
)

// HTTPOptions configure [RunHTTP]. Zero fields mean defaults.
type HTTPOptions struct {
	Redis     string          `default:"redis-server"` // the programs that are started
	Fastlimit string          `kong:"-"`
	Clients   int             `default:"100000"`       // that conform
	Others    float64         `default:"15000"`        // requests per second of these together
	Floods    []float64       `default:"1000,15000,0"` // rates of the one client that floods, a stage each; 0 means as fast as it goes
	Duration  time.Duration   `default:"10s"`          // of a stage
	Progress  report.Progress `kong:"-"`
}

const (
	httpRate, httpBurst = 100, 200 // the default of `fastlimit serve`
	httpHeader          = "X-Forwarded-For"
	httpConns           = 32
)

// edge is a server with its Redis, and a client of that to read its counters.
type edge struct {
	redis, server *proc.Child
	client        *redis.Client
	target        load.Target
	metrics       string // URL
}

// RunHTTP floods a fastlimit that is started, with a Redis that is started, by
// one client among many that conform, over HTTP, and counts what Redis is
// asked: by the store's counters, and by those of Redis itself. One result for
// each stage and one for all. They are valid beside an error.
func RunHTTP(ctx context.Context, o HTTPOptions) (results []report.Result, err error) {
	o = defaults.Of(o)
	if err := (Options{Path: o.Redis}).Check(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "fastlimit-redis-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	e, err := o.start(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer e.stop()
	all := new(stage)
	for i, rate := range o.Floods {
		name := "full speed"
		if rate > 0 {
			name = strconv.FormatFloat(rate, 'f', -1, 64) + "/s"
		}
		o.Progress.Tell(i, len(o.Floods), "redis: flood over HTTP, %s", name)
		s, err := o.stage(ctx, e, rate, netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}))
		if s.requests > 0 {
			all.add(s)
			results = append(results, o.result("one flood, "+name, s))
		}
		if err != nil {
			return results, err
		}
	}
	results = append(results, o.result("one flood, all of these", all))
	o.Progress.Tell(len(o.Floods), len(o.Floods), "done")
	return results, nil
}

// start runs both programs. The server trusts this machine's addresses to name
// clients in a header: 100,000 clients need no connections of their own.
func (o HTTPOptions) start(ctx context.Context, dir string) (e *edge, err error) {
	var addrs [3]string // of Redis, for traffic, for the operator
	for i := range addrs {
		if addrs[i], err = proc.FreeAddr(); err != nil {
			return nil, err
		}
	}
	e = &edge{metrics: "http://" + addrs[2] + "/metrics"}
	if e.redis, err = startRedis(ctx, o.Redis, dir, addrs[0]); err != nil {
		return nil, err
	}
	e.client = redis.NewClient(&redis.Options{Addr: addrs[0]})
	config := filepath.Join(dir, "fastlimit.yaml")
	text := fmt.Sprintf("listen: %s\nadmin: %s\ntrusted_proxies: [127.0.0.0/8]\nclient_ip_header: %s\nredis: {url: \"redis://%s\"}\n"+
		"rules: [{name: per-ip, key: ip, rate: %d/s, burst: %d}]\n", addrs[1], addrs[2], httpHeader, addrs[0], httpRate, httpBurst)
	if err = os.WriteFile(config, []byte(text), 0o600); err == nil {
		e.server, err = proc.Start(ctx, proc.Config{Path: o.Fastlimit, Args: []string{"serve", "-c", config}, Dir: dir, Addr: addrs[1]})
	}
	if err == nil {
		ready, cancel := context.WithTimeout(ctx, 5*time.Second)
		err = e.server.Await(ready, addrs[2])
		cancel()
	}
	if err == nil {
		e.target, err = load.NewTarget("http://"+addrs[1]+"/", 0)
	}
	if err != nil {
		e.stop()
		return nil, err
	}
	return e, nil
}

// stop ends the server first, so that it does not report a Redis gone away.
func (e *edge) stop() {
	if e.server != nil {
		e.server.Stop()
	}
	_ = e.client.Close()
	e.redis.Stop()
}
