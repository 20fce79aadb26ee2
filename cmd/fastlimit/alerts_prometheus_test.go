//go:build prometheus

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// promtool accepts the alerts, and each fires in its state and in no other.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		cmd := exec.Command("promtool", args...)
		cmd.Dir = filepath.Dir(alertRules)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", args, err, out)
		}
	}
}

// prometheus is a real one that watches processes, each an instance of its name.
type prometheus struct {
	t    *testing.T
	addr string
}

// Durations of the alerts are shortened, and nothing else.
var (
	alertFor   = regexp.MustCompile(`(?m)^( +for: )\w+$`)
	alertRange = regexp.MustCompile(`\[\w+\]`)
)

func startPrometheus(t *testing.T, nodes map[string]*process) *prometheus {
	t.Helper()
	config := "global: {scrape_interval: 250ms, scrape_timeout: 250ms, evaluation_interval: 250ms}\nrule_files: [alerts.yml]\nscrape_configs:\n- job_name: fastlimit\n  static_configs:\n"
	for name, p := range nodes {
		config += fmt.Sprintf("  - {targets: [%q], labels: {instance: %q}}\n", p.admin, name)
	}
	return runPrometheus(t, config, len(nodes))
}

// runPrometheus waits until all of so many targets have been scraped.
func runPrometheus(t *testing.T, config string, targets int) *prometheus {
	t.Helper()
	dir := t.TempDir()
	rules := alertRange.ReplaceAllString(alertFor.ReplaceAllString(readText(t, alertRules), "${1}1s"), "[4s]")
	for name, text := range map[string]string{"alerts.yml": rules, "prometheus.yml": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := &prometheus{t: t, addr: testkit.FreeAddr(t)}
	cmd := exec.Command("prometheus", "--config.file", filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", p.addr)
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	p.until("Prometheus to be ready", func() bool {
		resp, err := http.Get("http://" + p.addr + "/-/ready")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusOK
	})
	p.until("all nodes to be scraped", func() bool {
		return len(p.query(fmt.Sprintf(`max_over_time(up[10s]) == 1 and on() (count(up) == %d)`, targets))) == targets
	})
	return p
}

// until polls; a minute passes only if something is wrong.
func (p *prometheus) until(what string, f func() bool) {
	p.t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("waited in vain for %s", what)
		}
	}
}

func (p *prometheus) api(path string, into any) {
	p.t.Helper()
	resp, body := get(p.t, http.DefaultClient, "http://"+p.addr+"/api/v1/"+path)
	if resp.StatusCode != http.StatusOK {
		p.t.Fatalf("%s: %d %s", path, resp.StatusCode, body)
	}
	if err := json.Unmarshal([]byte(body), into); err != nil {
		p.t.Fatal(err)
	}
}

// query returns the labels of each sample of the result.
func (p *prometheus) query(expr string) (all []map[string]string) {
	p.t.Helper()
	var reply struct {
		Data struct {
			Result []struct {
				Metric map[string]string `json:"metric"`
			} `json:"result"`
		} `json:"data"`
	}
	p.api("query?query="+url.QueryEscape(expr), &reply)
	for _, r := range reply.Data.Result {
		all = append(all, r.Metric)
	}
	return all
}

func (p *prometheus) fires(alert, instance string) bool {
	p.t.Helper()
	var reply struct {
		Data struct {
			Alerts []struct {
				Labels map[string]string `json:"labels"`
				State  string            `json:"state"`
			} `json:"alerts"`
		} `json:"data"`
	}
	p.api("alerts", &reply)
	for _, a := range reply.Data.Alerts {
		if a.Labels["alertname"] == alert && a.Labels["instance"] == instance && a.State == "firing" {
			return true
		}
	}
	return false
}

// firesDuring has an alert fire while a state lasts, and clear after it.
func (p *prometheus) firesDuring(alert, instance string, begin, end func()) {
	p.t.Helper()
	if p.fires(alert, instance) {
		p.t.Errorf("%s fires at %s beforehand", alert, instance)
	}
	began := time.Now()
	begin()
	p.until(alert+" to fire", func() bool { return p.fires(alert, instance) })
	fired := time.Now()
	end()
	p.until(alert+" to clear", func() bool { return !p.fires(alert, instance) })
	p.t.Logf("%s fired after %v and cleared after %v", alert, fired.Sub(began).Round(10*time.Millisecond), time.Since(fired).Round(10*time.Millisecond))
}

// during runs f until end is called, which waits for it.
func during(f func(stop <-chan struct{})) (begin, end func()) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	return func() { wg.Go(func() { f(stop) }) }, func() { close(stop); wg.Wait() }
}

// Each alert fires in a Prometheus that watches real nodes while its state lasts, and
// clears when that has passed. A node without trouble has no alert at all.
func TestAlertsFireAndClear(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	release := make(chan struct{})
	app := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(app.Close)
	reloaded := writeFile(t, "reload.yaml", "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\n"+perIP)
	const ports = "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\n"
	nodes := map[string]*process{
		"quiet":     serveFile(t, ports+perIP),
		"flood":     serveFile(t, ports+perIP),
		"store":     serveFile(t, ports+fmt.Sprintf("redis: {url: \"redis://%s\"}\n", redis.Addr)+"rules: [{name: per-ip, key: ip, rate: 1000/s}]\n"),
		"evictions": serveFile(t, ports+"memory: 1MiB\nrules: [{name: per-name, key: \"header:X-Name\", rate: 1/h, burst: 2, strict: true}]\n"),
		"shadow":    serveFile(t, ports+"rules: [{name: new, key: ip, rate: 1/h, burst: 2, strict: true, mode: shadow}]\n"),
		"reload":    start(t, exec.Command(binary, "serve", "-c", reloaded)),
		"overload":  serveFile(t, ports+fmt.Sprintf("upstream: %s\nconnections: {max: 4}\nrules: [{name: per-ip, key: ip, rate: 100000/s}]\n", app.URL)),
	}
	p := startPrometheus(t, nodes)
	asks := func(node string, conns int) (begin, end func()) {
		return during(func(stop <-chan struct{}) { new(answers).flood(t, "http://"+nodes[node].listen+"/", conns, stop) })
	}

	begin, end := asks("flood", 2)
	p.firesDuring("FastlimitFlood", "flood", begin, end)

	begin, end = asks("shadow", 1)
	p.firesDuring("FastlimitShadowWouldDeny", "shadow", begin, end)

	begin, end = asks("store", 1)
	p.firesDuring("FastlimitStoreAway", "store", func() { begin(); redis.Kill() }, redis.Run)
	end()

	begin, end = during(func(stop <-chan struct{}) { askByMany(t, nodes["evictions"].listen, stop) })
	p.firesDuring("FastlimitEvictions", "evictions", begin, end)

	reload := func(text string) {
		if err := os.WriteFile(reloaded, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		nodes["reload"].signal(syscall.SIGHUP)
	}
	p.firesDuring("FastlimitReloadFailed", "reload", func() { reload("rules: [nonsense]\n") }, func() { reload(ports + perIP) })

	begin, end = during(func(stop <-chan struct{}) { crowd(t, nodes["overload"].listen, stop) })
	p.firesDuring("FastlimitOverloaded", "overload", begin, func() { close(release); end() })

	// FastlimitDown is about scrapes: here they have a quarter of a second, which the machine may need.
	if all := p.query(`max by (alertname) (max_over_time(ALERTS{instance="quiet",alertname!="FastlimitDown"}[1h]))`); len(all) > 0 {
		t.Errorf("alerts of a node without trouble: %v", all)
	}
}

// crowd sends four requests at once, which is all that there is room for, and connects in vain
// until stop is closed.
func crowd(t *testing.T, addr string, stop <-chan struct{}) {
	connect := func(send string) net.Conn {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_, err = c.Write([]byte(send))
		}
		if err != nil {
			t.Error(err)
			return nil
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	const request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	for range 4 {
		connect(request)
	}
	for {
		select {
		case <-stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
		if c := connect(request); c != nil {
			c.Close()
		}
	}
}

// askByMany has each of many clients ask, until stop is closed.
func askByMany(t *testing.T, addr string, stop <-chan struct{}) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	answers := make([]byte, 64<<10)
	for n := 0; ; n++ {
		var b strings.Builder
		for i := range 16 {
			fmt.Fprintf(&b, "GET / HTTP/1.1\r\nHost: a\r\nX-Name: %d-%d\r\n\r\n", n, i)
		}
		select {
		case <-stop:
			return
		default:
		}
		if _, err = c.Write([]byte(b.String())); err == nil {
			_, err = c.Read(answers)
		}
		if err != nil {
			t.Error(err)
			return
		}
	}
}
