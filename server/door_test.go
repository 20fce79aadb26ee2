//go:build linux && (amd64 || arm64)

package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/memstore"
	"github.com/fastlimit/fastlimit/policy"
)

// perKey allows 2 requests to each API key.
func perKey() policy.Settings {
	return policy.Settings{Rules: []policy.RuleSpec{{
		Limit: fastlimit.RuleConfig{Name: "per-key", Rate: fastlimit.Rate{N: 1, Per: time.Hour}, Burst: 2, Strict: true},
		Key:   []policy.KeyPart{{Kind: policy.KeyHeader, Name: "X-Api-Key"}},
	}}}
}

// askClosing makes a request over a connection of its own, as a flood does, and returns the status.
func askClosing(t *testing.T, addr, key string) string {
	t.Helper()
	c := dial(t, addr)
	defer c.Close()
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: a\r\nX-Api-Key: %s\r\nConnection: close\r\n\r\n", key)
	all, err := io.ReadAll(c)
	if err != nil || !strings.Contains(string(all), "\r\nConnection: close\r\n") {
		t.Errorf("%q, %v", all, err)
	}
	status, _, _ := strings.Cut(strings.TrimPrefix(string(all), "HTTP/1.1 "), " ")
	return status
}

// atDoor is how many connections were answered there.
func (r *running) atDoor() (n int) {
	at, _ := r.conns.Accepted()
	return int(at)
}

// If there is nothing to wait for everything is answered at the door; with queues nothing is. The kernel
// holds a connection back for only one second: if a request comes later, everything starts over.
func TestAnsweredAtTheDoor(t *testing.T) {
	t.Parallel()
	for wait, want := range map[time.Duration]int{0: 4, time.Millisecond: 0} {
		set := perKey()
		set.Rules[0].Limit.MaxWait = wait
		atDoor := -1
		for try := 0; try < 5 && atDoor != want; try++ {
			s := start(t, set)
			got := ""
			for range 4 {
				got += askClosing(t, s.addr, "a") + " "
			}
			atDoor = s.atDoor()
			if got != "200 200 429 429 " || s.decide.Requests().Denied != 2 {
				t.Errorf("%v: %s, %+v", wait, got, s.decide.Requests())
			}
		}
		if atDoor != want {
			t.Errorf("%v: %d at the door", wait, atDoor)
		}
	}
}

// stuckStore keeps operations to itself from stick until release.
type stuckStore struct {
	bucket.Store
	mu    sync.Mutex
	stuck bool
	ops   []*bucket.Op
}

func (s *stuckStore) Submit(op *bucket.Op) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stuck {
		s.ops = append(s.ops, op)
		return nil
	}
	return s.Store.Submit(op)
}

func (s *stuckStore) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ops)
}

func (s *stuckStore) stick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stuck = true
}

func (s *stuckStore) release(t *testing.T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stuck = false
	for _, op := range s.ops {
		if err := s.Store.Submit(op); err != nil {
			t.Error(err)
		}
	}
	s.ops = nil
}

// While a store is silent, those who have to wait for it keep nobody else from being answered:
// what this node knows of is denied at the door.
func TestDoorDoesNotWaitForAStore(t *testing.T) {
	t.Parallel()
	set := perKey()
	store := &stuckStore{Store: memstore.New(memstore.Config{})}
	t.Cleanup(func() { _ = store.Close(context.Background()) })
	s := start(t, set, func(c *Config) {
		var err error
		if c.Limiter, err = fastlimit.New(fastlimit.Config{Rules: set.Limits(), Memory: 4 << 20, Store: store, StoreTimeout: 10 * time.Second}); err != nil {
			t.Fatal(err)
		}
		if c.Engine, err = policy.New(c.Limiter, set); err != nil {
			t.Fatal(err)
		}
	})
	got := ""
	for range 3 {
		got += askClosing(t, s.addr, "attacker") + " "
	}
	if got != "200 200 429 " || s.atDoor() > 1 { // the denial
		t.Fatalf("%s, %d at the door", got, s.atDoor())
	}
	lists, err := policy.NewLists(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.SetLists(lists) // others know it from then on, too
	store.stick()
	deniedWhile(t, s, func() { eventually(t, func() bool { return store.waiting() == others }) }, func() { store.release(t) })
}

// others are clients with something to wait for.
const others = 20

// deniedWhile has the attacker denied at the door while others wait. They do when waiting has
// returned, and no more after release; then they are admitted.
func deniedWhile(t *testing.T, s *running, waiting, release func()) {
	t.Helper()
	var wait sync.WaitGroup
	for i := range others {
		wait.Go(func() {
			if got := askClosing(t, s.addr, fmt.Sprint(i)); got != "200" {
				t.Errorf("somebody else: %s", got)
			}
		})
	}
	waiting()
	before := s.atDoor()
	for range 100 {
		if got := askClosing(t, s.addr, "attacker"); got != "429" {
			t.Fatal(got)
		}
	}
	if n := s.atDoor() - before; n < 90 { // but those whose request came late
		t.Errorf("%d of 100 at the door", n)
	}
	release()
	wait.Wait()
}

// The same while an upstream is silent.
func TestDoorDoesNotWaitForAnUpstream(t *testing.T) {
	t.Parallel()
	release, arrived := make(chan struct{}), make(chan struct{}, 2*others)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != "attacker" {
			arrived <- struct{}{}
			<-release
		}
	}))
	defer app.Close()
	free := sync.OnceFunc(func() { close(release) })
	defer free() // or Close would wait
	s := start(t, perKey(), func(c *Config) { c.Upstream = &Upstream{URLs: []string{app.URL}, MaxPerClient: 2 * others} })
	for range 2 {
		if got := askClosing(t, s.addr, "attacker"); got != "200" {
			t.Fatal(got)
		}
	}
	deniedWhile(t, s, func() { eventually(t, func() bool { return len(arrived) == others }) }, free)
}

// A client held back by the kernel when the server drains, or when the listener goes, has the same time to
// send its request as everybody else.
func TestHeldBackAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(s *running){
		"drain": func(s *running) { go s.stop() },
		"reload": func(s *running) {
			c := *s.config()
			c.Listeners = c.Listeners[:1]
			if err := s.Reload(c); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, perKey(), func(c *Config) {
				c.Listeners = append(c.Listeners, Listener{Address: "127.0.0.1:0"})
				c.Drain.Timeout = 10 * time.Second
			})
			addr := s.Addrs()[1].String()
			c := dial(t, addr) // and says nothing yet
			defer c.Close()
			end(s)
			eventually(t, func() bool { // it takes no more
				nc, err := net.DialTimeout("tcp", addr, 50*time.Millisecond)
				if err == nil {
					nc.Close()
				}
				return err != nil
			})
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			if resp, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(resp), "HTTP/1.1 200 ") {
				t.Errorf("%q, %v", resp, err)
			}
		})
	}
}

// The connection whose request has its client given to the kernel is reset, at the door as
// elsewhere: an orderly end would wait for packets that the kernel drops.
func TestDoorResetsWhomItBans(t *testing.T) {
	t.Parallel()
	m := new(memory)
	s := start(t, floodRules(), withKernel(t, m))
	for i := 0; !s.KernelHolds(netip.MustParseAddr(attacker)); i++ {
		if i == 2*untilBan {
			t.Fatal("never held")
		}
		c := dialFrom(t, attacker, s.addr)
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		got, err := io.ReadAll(c)
		if held := s.KernelHolds(netip.MustParseAddr(attacker)); held != (err != nil) || held && len(got) > 0 {
			t.Errorf("%q, %v; held: %v", got, err, held)
		}
		c.Close()
	}
	if n := s.kernelStats().Resets; n == 0 {
		t.Errorf("the connection of a client that was given to the kernel was not reset")
	}
}
