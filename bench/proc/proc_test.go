package proc

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// As a child the test binary listens, or spends CPU time, as it is told.
func TestMain(m *testing.M) {
	switch os.Getenv("PROC_TEST") {
	case "listen":
		ln, err := net.Listen("tcp", os.Args[1])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		cores, _ := Cores()
		fmt.Printf("cores %v\n", cores)
		for {
			conn, err := ln.Accept()
			if err != nil {
				os.Exit(1)
			}
			// Whoever sends a line gets one back after 20 ms of work.
			if _, err := bufio.NewReader(conn).ReadString('\n'); err == nil {
				for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); {
				}
				fmt.Fprintln(conn, "done")
			}
			conn.Close()
		}
	case "fail":
		fmt.Fprintln(os.Stderr, strings.Repeat("x", 2*tailBytes)+" no such setting")
		os.Exit(1)
	case "sleep":
		time.Sleep(time.Hour)
	}
	os.Exit(m.Run())
}

func start(t *testing.T, mode string, c Config) (*Child, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c.Path, c.Args = "env", append([]string{"PROC_TEST=" + mode, self}, c.Args...) // env becomes the program
	child, err := Start(t.Context(), c)
	if err == nil {
		t.Cleanup(child.Stop)
	}
	return child, err
}

func freeAddr(t *testing.T) string {
	t.Helper()
	addr, err := FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

func TestChild(t *testing.T) {
	t.Parallel()
	cores, err := Cores()
	if err != nil {
		t.Fatal(err)
	}
	last := cores[len(cores)-1]
	addr := freeAddr(t)
	child, err := start(t, "listen", Config{Args: []string{addr}, Addr: addr, Cores: []int{last}})
	if err != nil {
		t.Fatal(err)
	}
	before, err := child.CPU()
	if err != nil {
		t.Fatal(err)
	}
	if rss, err := child.RSS(); err != nil || rss < 1<<20 || rss > 1<<30 {
		t.Errorf("RSS %d, %v: want that of a small Go program", rss, err)
	}
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(conn, "work")
	if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	// It worked for 20 ms of wall time, of which it may have been given little,
	// but not nothing, and not more than there is on one core.
	if after, err := child.CPU(); err != nil || after <= before {
		t.Errorf("CPU time %v before the work, %v after, %v", before, after, err)
	}
	child.Stop()
	child.Stop()
	if want := fmt.Sprintf("cores [%d]", last); child.Output() != want {
		t.Errorf("the child printed %q, want %q", child.Output(), want)
	}
	if _, err := child.CPU(); err == nil {
		t.Error("CPU time of a child that has ended")
	}
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	for _, c := range []struct {
		name, mode string
		config     Config
		want       string
	}{
		{"ends", "fail", Config{Addr: freeAddr(t)}, "no such setting"},
		{"never listens", "sleep", Config{Addr: freeAddr(t), Wait: 50 * time.Millisecond}, "does not listen"},
		{"port taken", "sleep", Config{Addr: taken.Addr().String()}, "taken by another server"},
		{"no such core", "sleep", Config{Cores: []int{1000}}, "cores [1000]"},
	} {
		child, err := start(t, c.mode, c.config)
		if err == nil {
			child.Stop()
			t.Errorf("%s: started", c.name)
			continue
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
		if len(err.Error()) > 2*tailBytes {
			t.Errorf("%s: error of %d bytes", c.name, len(err.Error()))
		}
	}
	if _, err := Start(t.Context(), Config{Path: "/does/not/exist"}); err == nil || !strings.Contains(err.Error(), "/does/not/exist") {
		t.Errorf("error %v, want one that names the program", err)
	}
}

// The pin is for the child alone.
func TestStartLeavesOurCores(t *testing.T) {
	t.Parallel()
	before, err := Cores()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := start(t, "sleep", Config{Cores: before[:1]}); err != nil {
		t.Fatal(err)
	}
	after := make(chan []int)
	forks() <- func() {
		cores, _ := Cores()
		after <- cores
	}
	if got := <-after; len(got) != len(before) {
		t.Errorf("the forking thread is left on cores %v of %v", got, before)
	}
}
