package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/fastlimit/fastlimit/bench/load"
	"github.com/fastlimit/fastlimit/bench/proc"
)

// pair is fastlimit and the bare server, both running on one core.
type pair struct {
	want   int
	addrs  [2]string // fastlimit, bare
	child  [2]*proc.Child
	loads  [2]*load.Closed
	answer string // file
}

// startPair starts both. The bare one learns its answer from fastlimit.
func startPair(ctx context.Context, o options, core int, limit []string, want int) (_ *pair, err error) {
	p := &pair{want: want}
	defer func() {
		if err != nil {
			p.stop()
		}
	}()
	admin, err := proc.FreeAddr()
	if err != nil {
		return nil, err
	}
	for i := range p.addrs {
		if p.addrs[i], err = proc.FreeAddr(); err != nil {
			return nil, err
		}
	}
	fmt.Fprintf(os.Stderr, "fastlimit on %s, profiles on http://%s/debug/pprof\n", p.addrs[0], admin)
	p.child[0], err = proc.Start(ctx, proc.Config{
		Path: o.fastlimit, Args: append([]string{"serve", "--listen", p.addrs[0], "--admin", admin}, limit...),
		Cores: []int{core}, Addr: p.addrs[0],
	})
	if err != nil {
		return nil, err
	}
	if p.answer, err = record(p.addrs[0], want); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p.child[1], err = proc.Start(ctx, proc.Config{
		Path: self, Args: []string{"-bare", p.answer, fmt.Sprintf("-bare-timeouts=%v", o.timeouts), p.addrs[1]},
		Cores: []int{core}, Addr: p.addrs[1],
	})
	if err != nil {
		return nil, err
	}
	return p, p.dial(ctx, o.conns)
}

func (p *pair) dial(ctx context.Context, conns int) error {
	for i, addr := range p.addrs {
		t, err := load.NewTarget("http://"+addr+"/", 0)
		if err != nil {
			return err
		}
		if p.loads[i], err = load.DialClosed(ctx, t, conns, load.Loopback(conns)); err != nil {
			return err
		}
	}
	return nil
}

func (p *pair) stop() {
	for i := range p.addrs {
		if p.loads[i] != nil {
			p.loads[i].Close()
		}
		if p.child[i] != nil {
			p.child[i].Stop()
		}
	}
	os.Remove(p.answer)
}

// compare measures pairs, each in the order opposite to the one before. The
// costs are valid beside an error too.
func (p *pair) compare(ctx context.Context, o options) (costs, error) {
	for i := range p.loads { // connections, caches, clients over their limit
		if _, err := p.loads[i].Run(ctx, o.requests); err != nil {
			return nil, err
		}
	}
	var all costs
	for n := range o.pairs {
		var ns [2]float64
		for i := range ns {
			which := (i + n) % 2
			var err error
			if ns[which], err = measure(ctx, p.child[which], p.loads[which], o.requests, p.want); err != nil {
				return all, err
			}
		}
		all = append(all, struct{ fastlimit, bare float64 }{ns[0], ns[1]})
	}
	return all, nil
}

// record asks until the answer has the wanted status and writes it to a file.
func record(addr string, want int) (file string, err error) {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	for range 1000 {
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "+addr+"\r\n\r\n"); err != nil {
			return "", err
		}
		buf := make([]byte, 16<<10)
		n, err := conn.Read(buf) // on loopback an answer this short comes whole
		if err != nil {
			return "", err
		}
		if !bytes.HasPrefix(buf[:n], fmt.Appendf(nil, "HTTP/1.1 %d ", want)) {
			continue
		}
		f, err := os.CreateTemp("", "httpcost-answer-")
		if err != nil {
			return "", err
		}
		_, err = f.Write(buf[:n])
		fmt.Fprintf(os.Stderr, "answer of %d bytes, status %d\n", n, want)
		return f.Name(), errors.Join(err, f.Close())
	}
	return "", fmt.Errorf("fastlimit never answered %d", want)
}
