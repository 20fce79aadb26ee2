package httpbench

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/bench/oracle"
	"github.com/fastlimit/fastlimit/bench/proc"
	"github.com/fastlimit/fastlimit/bench/report"
	"github.com/valyala/fasthttp"
)

// ProxyOptions configure [RunProxy].
type ProxyOptions struct {
	Fastlimit string          `kong:"-"` // the binary to measure
	Rounds    int             `default:"15" help:"Rounds, which take turns between the proxies."`
	Requests  int             `default:"20000" help:"Requests in a round."`
	Conns     int             `default:"32" help:"Connections."`
	Headers   string          `default:"browser" enum:"host,browser" help:"Headers of the requests: host (no other) or browser (10 as a browser sends them)."`
	Slow      time.Duration   `default:"50ms" help:"What an answer of the app takes where requests are denied."`
	Progress  report.Progress `kong:"-"`
}

// RunProxy measures reverse proxies with limits: fastlimit beside nginx proxy_pass with
// limit_req, HAProxy with a stick table, and a fasthttp server that passes everything on by
// fasthttp's client. Each has a core for itself, while the app behind it and the generator share
// another one, so it is the CPU time of a request that counts, not requests per second.
//
// Where requests are denied, fastlimit as a decision service is beside them, and the
// verdict says how many requests the app has got.
func RunProxy(ctx context.Context, o ProxyOptions) (results []report.Result, err error) {
	peers := []Server{nginxProxy(), haproxyProxy()}
	ours := Fastlimit(o.Fastlimit)
	proxy := ours
	proxy.Name, proxy.Setup = "fastlimit proxy", "fastlimit serve --upstream, defaults"
	proxy.args = slices.Concat(ours.args, []string{"--upstream", "http://{{.App}}"})
	options := Options{
		Servers: slices.Concat([]Server{proxy, bareProxy()}, peers), Rounds: o.Rounds, Requests: o.Requests, Clients: o.Conns,
		Headers: []string{o.Headers}, NoFlood: true, noOpen: true, Progress: o.Progress,
	}.withDefaults()
	if err := options.Check(); err != nil {
		return nil, err
	}
	allowed, denied := options.proxied(o, http.StatusOK), options.proxied(o, http.StatusTooManyRequests)
	denied.servers = slices.Concat([]Server{proxy, ours}, peers)
	return options.run(ctx, []phase{allowed, denied})
}

// proxied is a phase in front of an app.
func (o Options) proxied(p ProxyOptions, status int) phase {
	s := shape{conns: p.Conns, head: p.Headers}
	c := s.load(p.Conns)
	ph := phase{name: "proxied, all allowed", rule: generousRule, status: status, app: new(time.Duration(0))}
	if status != http.StatusOK {
		ph.name, ph.rule, ph.app = fmt.Sprintf("proxied, one denied hot key, app of %v", p.Slow), oracle.Rule{}.WithDefaults(), &p.Slow
		c.Sources = 1
	}
	ph.run = func(ctx context.Context, all []*running, on cores) ([]report.Result, error) {
		begin := time.Now()
		results, err := o.closed(ctx, all, ph, c, on.load)
		for i := range results {
			if status == http.StatusOK || err != nil || all[i].app == nil {
				continue
			}
			got, failed := all[i].app.served()
			if failed != nil {
				return results, failed
			}
			conforming := float64(ph.rule.Burst) + ph.rule.Rate.PerSecond()*time.Since(begin).Seconds()
			results[i].Verdict = join(results[i].Verdict, fmt.Sprintf("the app got %d requests; rate and burst allow %.0f", got, conforming))
		}
		return results, err
	}
	return ph
}

// app is the server behind a proxy, a process of its own for each of them.
type app struct {
	child *proc.Child
	addr  string
}

// startApp starts one whose answers take so long.
func startApp(ctx context.Context, slow time.Duration, cores []int) (*app, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	addr, err := proc.FreeAddr()
	if err != nil {
		return nil, err
	}
	child, err := proc.Start(ctx, proc.Config{Path: self, Args: []string{AppCommand, addr, slow.String()}, Cores: cores, Addr: addr})
	if err != nil {
		return nil, err
	}
	return &app{child, addr}, nil
}

// served is how many requests it has got.
func (a *app) served() (n int64, err error) {
	_, body, err := fasthttp.Get(nil, "http://"+a.addr+countPath)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(body)), 10, 64)
}

// countPath is where an app tells how many other requests it has got.
const countPath = "/-/count"

// App is the app behind the proxies. It is the command [AppCommand].
type App struct {
	Listen string        `arg:"" help:"Address to listen on."`
	Slow   time.Duration `arg:"" help:"What an answer takes."`
}

// Run implements the command.
func (a *App) Run() error {
	var served atomic.Int64
	s := fasthttp.Server{NoDefaultServerHeader: true, Handler: func(ctx *fasthttp.RequestCtx) {
		if string(ctx.Path()) == countPath {
			ctx.SetBodyString(strconv.FormatInt(served.Load(), 10))
			return
		}
		served.Add(1)
		if a.Slow > 0 {
			time.Sleep(a.Slow)
		}
		ctx.SetContentType("text/plain; charset=utf-8")
		ctx.SetBodyString("Hello, World!")
	}}
	return s.ListenAndServe(a.Listen)
}

// BareProxy is a proxy of a few lines: fasthttp's server, and its client. It limits nothing,
// and sets no header. It is the command [BareProxyCommand].
type BareProxy struct {
	App    string `arg:"" help:"Address of the app."`
	Listen string `arg:"" help:"Address to listen on."`
}

// Run implements the command.
func (b *BareProxy) Run() error {
	client := fasthttp.HostClient{Addr: b.App, MaxConns: 4096, NoDefaultUserAgentHeader: true}
	s := fasthttp.Server{NoDefaultServerHeader: true, Handler: func(ctx *fasthttp.RequestCtx) {
		ctx.Request.Header.Del("Connection")
		if err := client.Do(&ctx.Request, &ctx.Response); err != nil {
			ctx.Error(err.Error(), fasthttp.StatusBadGateway)
		}
		ctx.Response.Header.Del("Connection")
	}}
	return s.ListenAndServe(b.Listen)
}

func bareProxy() Server {
	self, _ := os.Executable() // where that fails it cannot be found, which says so
	return Server{
		Name: "bare fasthttp proxy", Setup: "fasthttp's server and client, which limit nothing and set no header",
		path: self, args: []string{BareProxyCommand, "{{.App}}", "{{.Addr}}"},
	}
}

func nginxProxy() Server {
	s := Nginx()
	s.Name, s.Setup = "nginx proxy_pass, limit_req", s.Setup+"; keepalive 64 to the app; Host, X-Forwarded-For and -Proto set"
	s.config = "nginx-proxy.conf"
	return s
}

func haproxyProxy() Server {
	s := HAProxy()
	s.Name, s.Setup = "HAProxy proxy, stick table", s.Setup+"; http-reuse always; X-Forwarded-For and -Proto set"
	s.config = "haproxy-proxy.cfg"
	return s
}
