package main

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/cli"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// metric is the value of one sample on a process's /metrics.
func (p *process) metric(t *testing.T, sample string) float64 {
	t.Helper()
	body := p.ask(t, "/metrics")
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(sample) + ` (\S+)$`).FindStringSubmatch(body)
	if m == nil {
		t.Fatalf("no %s in the metrics", sample)
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// open is how many connections are open.
func (p *process) open(t *testing.T) (n int) {
	t.Helper()
	for _, m := range connectionSamples.FindAllStringSubmatch(p.ask(t, "/metrics"), -1) {
		state, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		n += state
	}
	return n
}

var connectionSamples = regexp.MustCompile(`(?m)^fastlimit_connections\{state="[a-z0-9_]+"\} (\d+)$`)

// ask returns what the admin listener answers.
func (p *process) ask(t *testing.T, path string) (body string) {
	t.Helper()
	c, host := http.DefaultClient, p.admin
	if onSocket(p.admin) {
		c, host = socketClient(strings.TrimPrefix(p.admin, "unix:")), "localhost"
		defer c.CloseIdleConnections()
	}
	_, body = get(t, c, "http://"+host+path)
	return body
}

// answers counts what became of requests. It is safe for concurrent use.
type answers struct{ admitted, denied, other atomic.Int64 }

// flood sends requests from several connections until stop is closed.
func (n *answers) flood(t *testing.T, url string, conns int, stop <-chan struct{}) {
	t.Helper()
	var wg sync.WaitGroup
	for range conns {
		wg.Go(func() {
			c := clientFrom(t, "127.0.0.1")
			for {
				select {
				case <-stop:
					return
				default:
				}
				resp, err := c.Get(url)
				if err != nil {
					n.other.Add(1)
					continue
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				switch resp.StatusCode {
				case http.StatusOK:
					n.admitted.Add(1)
				case http.StatusTooManyRequests:
					n.denied.Add(1)
				default:
					n.other.Add(1)
				}
			}
		})
	}
	wg.Wait()
}

// fallbacks is how many requests nodes have admitted without the store, because its answer
// came too late on a loaded machine: the bound for what the store decides is not theirs.
func fallbacks(t *testing.T, nodes []*process) (n float64) {
	t.Helper()
	for i, p := range nodes {
		late := p.metric(t, `fastlimit_decisions_total{decision="allow",mode="enforce",rule="r",stage="fallback"}`)
		t.Logf("node %d: %v admitted without the store", i, late)
		n += late
	}
	return n
}

// redisConfig is a file with a wait that a loaded machine keeps.
func redisConfig(t *testing.T, addr, rule string) string {
	t.Helper()
	return writeFile(t, "redis.yaml", fmt.Sprintf("redis: {url: \"redis://%s\", timeout: 200ms}\nrules: [{name: r, key: ip, %s}]\n", addr, rule))
}

func TestTwoNodesOneRedis(t *testing.T) {
	severalPrograms(t)
	t.Parallel()
	r := redistest.Start(t)
	file := redisConfig(t, r.Addr, fmt.Sprintf("rate: %d/s, burst: %d", pairRate, pairBurst))
	nodes := []*process{serve(t, "-c", file), serve(t, "-c", file)}
	floodPair(t, nodes, `fastlimit_redis_operations_total{operation="take"}`)
}

// What two nodes on one store allow.
const pairRate, pairBurst = 10, 40

// floodPair has a client flood two processes on one store, whose timeout is 200 ms: it is held
// to rate r and burst (1+2θ)·B + 2 + C + r·J in total, C being what it has in flight.
func floodPair(t *testing.T, nodes []*process, taken string) {
	t.Helper()
	const theta, wait, inFlight = 0.5, 0.2, 4
	stop := make(chan struct{})
	var n [2]answers
	var wg sync.WaitGroup
	start := time.Now()
	for i, p := range nodes {
		wg.Go(func() { n[i].flood(t, "http://"+p.listen+"/", inFlight, stop) })
	}
	end := sync.OnceFunc(func() { close(stop); wg.Wait() })
	defer end()
	takes, seconds := takesOfFlood(t, nodes, &n, taken)
	end()
	elapsed := time.Since(start).Seconds()

	most := pairRate*elapsed + (1+2*theta)*pairBurst + 2 + 2*inFlight + pairRate*wait + fallbacks(t, nodes)
	total := float64(n[0].admitted.Load() + n[1].admitted.Load())
	if total > most || total < pairRate*elapsed {
		t.Errorf("%v admitted in %.2f s, want %.1f to %.1f", total, elapsed, pairRate*elapsed, most)
	}
	for i := range nodes {
		if other := n[i].other.Load(); other > 0 {
			t.Errorf("node %d: %d neither admitted nor denied", i, other)
		}
		if takes[i] == 0 || takes[i] > (2*pairRate+10)*seconds {
			t.Errorf("node %d: %v takes in %.2f s, want at most 2·r + 10 per second", i, takes[i], seconds)
		}
		t.Logf("node %d: %d admitted, %d denied, %v takes in %.2f s", i, n[i].admitted.Load(), n[i].denied.Load(), takes[i], seconds)
	}
}

// takesOfFlood counts the takes of each node in 1.5 s of a flood, ten times the rate at each and
// after the burst. A slow machine tries again.
func takesOfFlood(t *testing.T, nodes []*process, n *[2]answers, taken string) (takes [2]float64, seconds float64) {
	t.Helper()
	redistest.Eventually(t, "the burst to be over", func() bool { return n[0].denied.Load() > 0 && n[1].denied.Load() > 0 })
	redistest.Eventually(t, "a flood at each node", func() bool {
		var asked [2]float64
		begin := time.Now()
		for i, p := range nodes {
			takes[i], asked[i] = -p.metric(t, taken), -float64(n[i].admitted.Load()+n[i].denied.Load())
		}
		time.Sleep(1500 * time.Millisecond) // what passes is measured, not assumed
		for i, p := range nodes {
			takes[i] += p.metric(t, taken)
			asked[i] += float64(n[i].admitted.Load() + n[i].denied.Load())
		}
		seconds = time.Since(begin).Seconds()
		return min(asked[0], asked[1]) >= 10*pairRate*seconds
	})
	return takes, seconds
}

// Redis dies under load and comes back: every request is answered by the
// node itself meanwhile, the limit holds, and Redis takes over again.
func TestRedisDiesAndReturns(t *testing.T) {
	t.Parallel()
	const rate, burst = 20, 30
	r := redistest.Start(t)
	p := serve(t, "-c", redisConfig(t, r.Addr, fmt.Sprintf("rate: %d/s, burst: %d", rate, burst)))
	stop := make(chan struct{})
	var n answers
	var wg sync.WaitGroup
	start := time.Now()
	wg.Go(func() { n.flood(t, "http://"+p.listen+"/", 4, stop) })

	takes := func() float64 { return p.metric(t, `fastlimit_redis_operations_total{operation="take"}`) }
	redistest.Eventually(t, "takes", func() bool { return takes() > 5 })
	r.Kill()
	redistest.Eventually(t, "the breaker to open", func() bool { return p.metric(t, "fastlimit_redis_up") == 0 })
	fallback := func() float64 {
		return p.metric(t, `fastlimit_decisions_total{decision="allow",mode="enforce",rule="r",stage="fallback"}`)
	}
	before := fallback()
	redistest.Eventually(t, "decisions without Redis", func() bool { return fallback() > before+5 })
	if resp, _ := get(t, http.DefaultClient, "http://"+p.admin+"/readyz"); resp.StatusCode != http.StatusOK {
		t.Errorf("readyz %d while the rule decides locally", resp.StatusCode)
	}
	r.Run()
	redistest.Eventually(t, "Redis to be used again", func() bool { return p.metric(t, "fastlimit_redis_up") == 1 })
	again := takes()
	redistest.Eventually(t, "takes again", func() bool { return takes() > again+5 })
	close(stop)
	wg.Wait()

	if other := n.other.Load(); other > 0 {
		t.Errorf("%d requests were neither admitted nor denied", other)
	}
	// P2 of one node: what Redis forgot, the table brought back.
	elapsed := time.Since(start).Seconds()
	if admitted, most := n.admitted.Load(), rate*elapsed+1.5*burst+1+rate*0.2+4; float64(admitted) > most {
		t.Errorf("%d admitted in %.2f s, want at most %.1f", admitted, elapsed, most)
	}
}

func TestWrongRedisIsAnErrorAtStart(t *testing.T) {
	t.Parallel()
	guarded := redistest.Start(t, "--requirepass", "s3cret")
	guarded.Auth("s3cret")
	guarded.Do("ACL", "SETUSER", "reader", "on", ">pw", "~*", "+get", "+ping", "+info", "+time")
	primary := redistest.Start(t)
	replica := redistest.Start(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(primary.Port))
	for _, tt := range []struct {
		name, url string
		want      string
	}{
		{"no password", "redis://" + guarded.Addr, "auth"},
		{"wrong password", "redis://:wr0ng@" + guarded.Addr, "auth"},
		{"no permission", "redis://reader:pw@" + guarded.Addr, "noperm"},
		{"replica", "redis://" + replica.Addr, "readonly"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file := redisConfig(t, "unused", "rate: 1/s")
			code, _, stderr := command(t, nil, "serve", "-c", file, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--redis", tt.url)
			if code != cli.ExitFailure || !strings.Contains(strings.ToLower(stderr), tt.want) || strings.Contains(stderr, "wr0ng") {
				t.Errorf("exit %d: %s", code, stderr)
			}
		})
	}
}

// A Redis that is merely down is no reason not to serve, unless every rule
// needs it: then the node is not ready.
func TestServesWithoutRedis(t *testing.T) {
	t.Parallel()
	down := redistest.New(t) // never run
	for policy, ready := range map[string]int{"local": http.StatusOK, "closed": http.StatusServiceUnavailable} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			p := serve(t, "-c", redisConfig(t, down.Addr, "rate: 1/h, burst: 5, strict: true, on_failure: "+policy))
			if resp, _ := get(t, http.DefaultClient, "http://"+p.admin+"/readyz"); resp.StatusCode != ready {
				t.Errorf("readyz %d, want %d", resp.StatusCode, ready)
			}
			want := map[string]int{"local": http.StatusOK, "closed": http.StatusTooManyRequests}[policy]
			if resp, _ := get(t, http.DefaultClient, "http://"+p.listen+"/"); resp.StatusCode != want {
				t.Errorf("status %d, want %d", resp.StatusCode, want)
			}
		})
	}
}
