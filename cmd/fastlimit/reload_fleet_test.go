package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// While a stricter limit rolls through three nodes of a cluster with Redis, one after the other,
// a client within the stricter one is never denied, and one that exceeds both gets at most the
// bounds of both together, and by the end the stricter one. A rule that is new is counted by all nodes.
func TestReloadRollsThroughNodes(t *testing.T) {
	severalPrograms(t)
	t.Parallel()
	const loose, strict, stage = 40, 20, 1500 * time.Millisecond
	r := redistest.Start(t)
	var nodes []*process
	var roll []func(rate int)
	var seeds []string
	for i := range 3 {
		network := clusterSettings(fmt.Sprintf("n%d", i), "127.0.0.1:0", seeds)
		text := func(rate int, more string) string {
			return fmt.Sprintf("redis: {url: \"redis://%s\", timeout: 200ms}\nrules: [{name: per-ip, rate: %d/s, burst: %[2]d}%s]\n%s", r.Addr, rate, more, network)
		}
		n := &reloading{t: t, file: writeFile(t, "node.yaml", text(loose, ""))}
		n.process = serve(t, "-c", n.file)
		nodes, seeds = append(nodes, n.process), append(seeds, n.clusterAddr(t))
		roll = append(roll, func(rate int) { n.reloads(text(rate, ", {name: later, rate: 10000/s}")) })
	}
	for _, p := range nodes {
		p.waitPeers(t, len(nodes)-1)
	}
	bound := nodes[0].info(t).Rules[0].ClusterBound
	conforming := &sender{from: "127.0.1.1", rate: 0.3 * strict} // 0.9 of it at all nodes
	flooding := &sender{from: "127.0.1.2", rate: 2 * loose}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer func() { stop(); all.Wait() }()
	for _, s := range []*sender{conforming, flooding} {
		all.Go(func() { s.run(ctx, t, nodes) })
	}
	start := time.Now()
	for i := range roll {
		flooded(t, 2*loose, stage, flooding)
		roll[i](strict)
	}
	stricter := nodes[0].info(t).Rules[0].ClusterBound
	time.Sleep(stage) // nodes see it by then
	since := flooded(t, 2*loose, 2*stage, flooding)
	_, late, seconds := flooding.since(since)
	// As in TestCluster; by the looser limit it would be twice the rate.
	if most := 1.1*strict*seconds + strict; float64(late) > most {
		t.Errorf("%d admitted in %.2f s by the stricter limit, want at most %.0f", late, seconds, most)
	}
	sent, ever, seconds := flooding.since(start)
	if most := bound.Rate*(seconds+1) + float64(bound.Burst+stricter.Burst); float64(ever) > most || float64(ever) < strict*seconds {
		t.Errorf("%d of %d admitted in %.2f s, want at most %.0f", ever, sent, seconds, most)
	}
	if sent, admitted, _ := conforming.since(time.Time{}); admitted != sent || sent == 0 {
		t.Errorf("%d of %d requests within the stricter limit were denied", sent-admitted, sent)
	}
	t.Logf("%d of %d admitted in %.2f s; %d after the change", ever, sent, seconds, late)
	redistest.Eventually(t, "all nodes count by the new rule", func() bool {
		_, body := get(t, http.DefaultClient, "http://"+nodes[0].admin+"/v1/top?n=10")
		return regexp.MustCompile(`"rule":"later"[^}]*"nodes":\["n0","n1","n2"\]`).MatchString(body)
	})
	for _, p := range nodes {
		if n := p.metric(t, `fastlimit_sync_rejected_total{reason="malformed"}`); n > 0 {
			t.Errorf("%v packets are malformed", n)
		}
	}
}

// Listeners come and go, and connections of one that stays go on.
func TestReloadListeners(t *testing.T) {
	t.Parallel()
	const text = "listen: [\"127.0.0.1:0\"%s]\nadmin: \"127.0.0.1:0\"\nrules: [{name: per-ip, rate: 1/h, burst: 1, strict: true}]\n"
	socket := writeFile(t, "gone", "")
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	file := writeFile(t, "c.yaml", fmt.Sprintf(text, ""))
	r := &reloading{start(t, exec.Command(binary, "serve", "-c", file)), t, file}
	conn, err := net.Dial("tcp", r.listen)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	status := func() int {
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode
	}
	if a, b := status(), status(); a != 200 || b != 429 {
		t.Fatalf("%d, %d", a, b)
	}
	r.reloads(fmt.Sprintf(text, ", \"unix:"+socket+"\""))
	c := socketClient(socket)
	if resp, _ := get(t, c, "http://localhost/"); resp.StatusCode != http.StatusTooManyRequests { // peers of sockets are 127.0.0.1
		t.Errorf("on the new listener: %d", resp.StatusCode)
	}
	c.CloseIdleConnections()
	r.reloads(fmt.Sprintf(text, ""))
	redistest.Eventually(t, "the listener is gone", func() bool { _, err := os.Stat(socket); return os.IsNotExist(err) })
	if code := status(); code != 429 {
		t.Errorf("%d after the reloads", code)
	}
}
