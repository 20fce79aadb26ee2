package redisstore

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/fastlimit/fastlimit/bucket/storetest/trial"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/redisfault"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// brisk gives up early enough for a test and late enough for a noisy machine.
func brisk(addr string, l *testkit.Log) Config {
	return Config{
		URL: "redis://" + addr, Timeout: 20 * time.Millisecond, RetryMin: 20 * time.Millisecond, RetryMax: 200 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(l, nil)),
	}
}

// Every fault of one server, under load: each operation has one outcome,
// nothing is charged twice, and the store recovers by itself.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, f := range redisfault.All() {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			if f.Process && os.Getenv(alone) == "" {
				runAlone(t)
				return
			}
			runFault(t, &f)
		})
	}
}

// alone is set in a process that runs one test only.
const alone = "REDISSTORE_TEST_ALONE"

// runAlone runs the test in a process of its own.
func runAlone(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$", "-test.v")
	cmd.Env = append(os.Environ(), alone+"=1")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
}

// openBrisk opens a store that may find even a good server slow on a noisy
// machine; it recovers by itself.
func openBrisk(t *testing.T, c Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), c)
	if err != nil && !errors.Is(err, bucket.ErrAway) {
		t.Fatal(err)
	}
	trial.CloseLater(t, s)
	return s
}

func runFault(t *testing.T, f *redisfault.Fault) {
	site := redisfault.New(t, f)
	l := new(testkit.Log)
	s := openBrisk(t, brisk(site.Addr(), l))
	load := trial.StartLoad(t, s)
	load.Progress("works at first")

	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%+v\n%s", s.Stats(), l)
		}
	})
	site.Strike()
	redistest.Eventually(t, "the fault shows", func() bool {
		st := s.Stats()
		return (f.Class == "" || st.Errors[f.Class] > 0) && (!f.Trips || st.Trips > 0)
	})
	if !f.Trips {
		load.Progress("works in spite of the fault")
	}
	site.Heal()
	redistest.Eventually(t, "the breaker closes", func() bool { return s.Stats().State == "closed" })
	load.Progress("works again")

	load.End()
	load.Audit(charged(t, site.Get), f.Lost)
	ended := s.Stats()
	// A batch counts for the breaker after its operations are done.
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	st := s.Stats()
	if opened := l.Count("redis is away"); uint64(opened) != st.Trips {
		t.Errorf("%d lines about %d trips", opened, st.Trips)
	}
	if alarms := l.Count("level=ERROR"); misconfigured(f.Class) && alarms != 1 {
		t.Errorf("%d alarms, want 1:\n%s", alarms, l)
	}
	if f.Name == "CROSSSLOT" && !s.driver.oneKeyEach.Load() {
		t.Error("the keys of a batch were never refused")
	}
	if ended.Queue != 0 || ended.Pool.Total > s.driver.config.Workers+2 {
		t.Errorf("%d operations left in the queue, %d connections for %d workers", ended.Queue, ended.Pool.Total, s.driver.config.Workers)
	}
}

func misconfigured(class string) bool {
	return slices.ContainsFunc(classes, func(c *remote.Class) bool { return c.Name == class && c.Cause == remote.Misconfigured })
}

// A password that is changed while a node runs is an error of the configuration, which is
// told, and the node works again when it is right.
func TestPasswordChanged(t *testing.T) {
	t.Parallel()
	server, l := redistest.Start(t), new(testkit.Log)
	server.Do("ACL", "SETUSER", "node", "on", ">first", "~*", "+@all")
	c := brisk(server.Addr, l)
	c.Username, c.Password = "node", "first"
	s := openBrisk(t, c)
	load := trial.StartLoad(t, s)
	load.Progress("works at first")
	server.Do("ACL", "SETUSER", "node", "resetpass", ">second")
	server.Do("CLIENT", "KILL", "USER", "node")
	redistest.Eventually(t, "that shows", func() bool {
		st := s.Stats()
		return st.Errors["auth"] > 0 && st.Trips > 0 && l.Count("level=ERROR") > 0 && l.Count("class=auth") > 0
	})
	server.Do("ACL", "SETUSER", "node", "resetpass", ">first")
	redistest.Eventually(t, "the breaker closes", func() bool { return s.Stats().State == "closed" })
	load.Progress("works again")
	load.End()
	load.Audit(charged(t, func(key string) string { return server.Do("GET", key) }), false)
	if n := s.Stats().Errors["protocol"]; n > 0 {
		t.Errorf("%d errors of the protocol", n)
	}
}
