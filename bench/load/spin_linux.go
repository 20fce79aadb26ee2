package load

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

const (
	// opening is the number of connections that are opened at once: fewer than any
	// server's queue holds, since a full one drops the rest for a second.
	opening = 64
	// patience is how long a request may take before it counts as failed, and how
	// long it may take to open all connections without any progress.
	patience = 5 * time.Second
	// maxFailures end a run: the server is gone.
	maxFailures = 10_000
)

// spinner is a running load. It belongs to one thread.
type spinner struct {
	SpinConfig

	epoll   int
	server  unix.SockaddrInet4
	conns   []spinConn // the last one is the probe's, if there is one
	dialled int        // connections so far; the source address follows from it
	start   time.Time
	buf     []byte
	events  []unix.EpollEvent

	// The server's answers arrive in whatever order; a connection is in one of three
	// places: free, in flight (its state says at what), or in again.

	// free are the connections without a request, oldest first, in a ring: an open
	// loop uses all connections alike.
	free       []int32
	head, held int
	// again are connections whose request failed, to be sent in the next turn: a
	// server that is gone must not be asked in a recursion.
	again []int32

	closed bool // a closed loop is under way: an answer sends the next request
	sent   int64
	loopAt int64 // when the open loop began, ns since start

	probeServer unix.SockaddrInet4
	probeDue    int64 // ns since start
	probed      *hdrhistogram.Histogram

	status           [maxStatus]int64
	latency, service *hdrhistogram.Histogram
	out              SpinOutcome
}

// Spin runs the load in the calling goroutine, which keeps its thread until then. A
// request without an answer is counted and its connection replaced; an answer that
// is none of HTTP ends the run.
func Spin(ctx context.Context, c SpinConfig) (*SpinOutcome, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	server, err := sockaddr(c.Addr)
	if err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := &spinner{
		SpinConfig: c, start: time.Now(), buf: make([]byte, 64<<10), events: make([]unix.EpollEvent, 512),
		server: server, conns: make([]spinConn, c.Conns), free: make([]int32, c.Conns),
		latency: NewHistogram(), service: NewHistogram(),
	}
	for i := range s.conns {
		s.conns[i].fd = -1
		s.release(int32(i))
	}
	if c.Probe != nil {
		s.probeServer = server
		if c.Probe.Addr != "" {
			if s.probeServer, err = sockaddr(c.Probe.Addr); err != nil {
				return nil, err
			}
		}
		s.conns, s.probed = append(s.conns, spinConn{fd: -1}), NewHistogram()
	}
	if s.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	defer s.close()
	if err := s.run(ctx); err != nil {
		return nil, fmt.Errorf("bench: target %s: %w", c.Addr, err)
	}
	s.out.Status = map[int]int64{}
	for status, n := range s.status {
		if n > 0 {
			s.out.Status[status] = n
		}
	}
	if s.Rate == 0 {
		s.service = s.latency
	}
	s.out.Latency, s.out.Service = s.latency.Export(), s.service.Export()
	if s.probed != nil {
		s.out.Probe = s.probed.Export()
	}
	return &s.out, nil
}

// close closes all connections, whatever is under way on them.
func (s *spinner) close() {
	for i := range s.conns {
		s.drop(&s.conns[i])
	}
	_ = unix.Close(s.epoll)
}

// now is in ns since start: a difference of two monotonic readings, without a system
// call.
func (s *spinner) now() int64 { return int64(time.Since(s.start)) }

// run opens the connections, warms the server up and measures. Where each request has
// a connection of its own there is nothing to open beforehand.
func (s *spinner) run(ctx context.Context) error {
	if !s.Reconnect {
		if err := s.open(ctx); err != nil {
			return err
		}
	}
	call(s.Open)
	if s.Requests == 0 && s.Duration == 0 {
		return nil
	}
	s.closed = s.Rate == 0 && !s.Queue
	s.loopAt = s.now()
	s.probeDue = s.loopAt
	for s.closed && s.held > 0 {
		s.sendNow(s.take())
	}
	if err := s.loop(ctx, s.now()+int64(s.Warmup), 0); err != nil {
		return err
	}
	s.reset()
	call(s.Begin)
	begin := s.now()
	if s.sent == 0 { // nothing was due before, and getting here took time
		s.loopAt, s.probeDue = begin, begin
	}
	end := begin + int64(s.Duration)
	if s.Duration == 0 {
		end = 1<<63 - 1
	}
	err := s.loop(ctx, end, s.Requests)
	now := s.now()
	s.out.Elapsed = time.Duration(now - begin)
	call(s.End)
	for i := range s.conns {
		if c := &s.conns[i]; c.state != spinFree && c.state != spinClosing && now-c.sent > int64(patience) {
			s.failed(fmt.Errorf("no answer within %v", patience))
		}
	}
	if s.Rate > 0 {
		s.out.Unsent = max(0, s.dueBy(now)-s.sent)
	}
	return err
}

// call calls a hook, unless it is nil.
func call(f func()) {
	if f != nil {
		f()
	}
}

// reset forgets what was counted during warm-up.
func (s *spinner) reset() {
	s.status = [maxStatus]int64{}
	s.out = SpinOutcome{Ever: s.out.Ever}
	s.latency.Reset()
	s.service.Reset()
	if s.probed != nil {
		s.probed.Reset()
	}
}

// open opens all connections, a few at a time, and has one request answered on
// each.
func (s *spinner) open(ctx context.Context) error {
	left, last := s.Conns, s.now()
	for left > 0 || s.held < s.Conns {
		for busy := s.Conns - s.held; left > 0 && busy < opening; busy++ {
			s.sendNow(s.take())
			left--
		}
		ever := s.out.Ever
		if err := s.poll(ctx); err != nil {
			return err
		}
		if s.out.Ever > ever {
			last = s.now()
		} else if s.out.Failed > 0 || s.now()-last > int64(patience) {
			return fmt.Errorf("%d of %d connections are open: %s", s.out.Ever, s.Conns, s.out.Failure)
		}
	}
	return nil
}

// loop keeps the load up until a time, or until there are so many answers, if more
// than 0 are wanted.
func (s *spinner) loop(ctx context.Context, end, answers int64) error {
	from := s.out.Ever
	for s.now() < end && (answers == 0 || s.out.Ever-from < answers) {
		if s.Queue {
			if err := s.batch(ctx); err != nil {
				return err
			}
			continue
		}
		if err := s.poll(ctx); err != nil {
			return err
		}
		s.probe()
		if s.Rate == 0 {
			continue
		}
		now := s.now()
		for due := s.dueBy(now); s.sent < due && s.held > 0; s.sent++ {
			s.send(s.take(), s.loopAt+int64(float64(s.sent)*float64(time.Second)/s.Rate), now)
		}
	}
	return nil
}

// dueBy is the number of requests of an open loop that are due by now.
func (s *spinner) dueBy(now int64) int64 {
	return int64(float64(now-s.loopAt)/float64(time.Second)*s.Rate) + 1
}

// release and take are the ends of the ring of free connections.
func (s *spinner) release(i int32) {
	s.free[(s.head+s.held)%len(s.free)] = i
	s.held++
}

func (s *spinner) take() int32 {
	i := s.free[s.head]
	s.head = (s.head + 1) % len(s.free)
	s.held--
	return i
}

// poll looks once for what has come, without waiting.
func (s *spinner) poll(ctx context.Context) error {
	n, err := unix.EpollWait(s.epoll, s.events, 0)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return os.NewSyscallError("epoll_wait", err)
	}
	s.out.Polls++
	if n <= 0 {
		s.out.Empty++
	}
	if s.out.Polls%1024 == 0 && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for i := range max(0, n) {
		if err := errors.Join(s.event(s.events[i].Fd), s.attend()); err != nil {
			return err
		}
	}
	if len(s.again) > 0 {
		if s.out.Failed > maxFailures {
			return fmt.Errorf("%d requests failed: %s", s.out.Failed, s.out.Failure)
		}
		again := s.again
		s.again = nil
		for _, i := range again {
			s.sendNow(i)
		}
	}
	return nil
}
