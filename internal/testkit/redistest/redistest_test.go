//go:build linux

package redistest

import (
	"bufio"
	"strings"
	"testing"
)

func TestServer(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.Do("SET", "k", "a b\r\nc")
	if got := s.Do("GET", "k"); got != "a b\r\nc" {
		t.Errorf("GET = %q", got)
	}
	if r, err := s.Try("NOSUCH"); err != nil || !strings.HasPrefix(r, "-ERR") {
		t.Errorf("unknown command: %q, %v", r, err)
	}
	s.Stop()
	s.Continue()
	s.Do("PING")
	s.Kill()
	if _, err := s.Try("PING"); err == nil {
		t.Error("a killed server answers")
	}
	s.Run()
	if got := s.Do("EXISTS", "k"); got != "0" {
		t.Errorf("EXISTS after restart = %q, want 0: nothing is persisted", got)
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := StartCluster(t)
	if n := c.Owner(0); n != 0 {
		t.Errorf("Owner(0) = %d", n)
	}
	if n := c.Owner(16383); n != 2 {
		t.Errorf("Owner(16383) = %d", n)
	}
	if id := c.ID(1); len(id) != 40 {
		t.Errorf("ID = %q", id)
	}
}

func TestSentinels(t *testing.T) {
	t.Parallel()
	s := StartSentinels(t)
	if got := s.Replica.Do("ROLE"); !strings.HasPrefix(got, "slave\n127.0.0.1") {
		t.Errorf("ROLE of the replica = %q", got)
	}
}

func TestReadReply(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"+OK\r\n": "OK", ":7\r\n": "7", "$2\r\nab\r\n": "ab", "$-1\r\n": "", "-ERR x\r\n": "-ERR x",
		"*2\r\n:1\r\n*1\r\n$1\r\na\r\n": "1\na",
	} {
		if got, err := readReply(bufio.NewReader(strings.NewReader(in))); err != nil || got != want {
			t.Errorf("readReply(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"", "\r\n", "?\r\n", "*x\r\n", "$x\r\n", "$5\r\nab"} {
		if _, err := readReply(bufio.NewReader(strings.NewReader(in))); err == nil {
			t.Errorf("readReply(%q) succeeded", in)
		}
	}
}
