package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"time"

	"github.com/fastlimit/fastlimit/internal/cli"
	"github.com/fastlimit/fastlimit/internal/screen"
	"github.com/fastlimit/fastlimit/internal/top"
)

// leastAsked is how many clients a screen asks for: more than it shows, to move through.
const leastAsked = 200

// topScreen is fastlimit top on a terminal. One goroutine has all of it; another asks the
// node, so that keys never wait for an answer.
type topScreen struct {
	cmd    *topCmd
	view   top.View
	screen *screen.Screen
	colors bool

	asking  bool
	again   bool // the answer on its way is to a question of before
	answers chan topAnswer
}

type topAnswer struct {
	doc *top.Document
	err error
}

// onScreen runs until a key or a signal ends it. What is wrong with the first answer ends it
// before it begins; later ones are waited for.
func (c *topCmd) onScreen(ctx context.Context, in, out *os.File, noColor bool) error {
	s := &topScreen{cmd: c, colors: !noColor, answers: make(chan topAnswer, 1), view: top.View{Admin: c.Admin, Order: c.Sort, Rule: c.Rule}}
	ends, changes := make(chan os.Signal, 4), make(chan os.Signal, 1)
	signal.Notify(ends, screen.Ends...)
	defer signal.Stop(ends)
	if screen.Resized != nil {
		signal.Notify(changes, screen.Resized, screen.Continued)
		defer signal.Stop(changes)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.ask(ctx)
	select {
	case a := <-s.answers:
		if a.err != nil {
			return a.err
		}
		s.take(a)
	case sig := <-ends:
		return cli.Interrupted(sig)
	}
	var err error
	if s.screen, err = screen.Open(in, out); err != nil {
		return err
	}
	defer func() { _ = s.screen.Close() }() // at a panic
	if err = s.run(ctx, screen.Keys(in), ends, changes); err != nil {
		return errors.Join(s.screen.Close(), err) // before it is printed
	}
	return s.screen.Close()
}

// run is the loop. Whatever happens, the screen is drawn anew: that is 1 ms.
func (s *topScreen) run(ctx context.Context, keys <-chan screen.Key, ends, changes <-chan os.Signal) error {
	tick := time.NewTicker(s.cmd.Every)
	defer tick.Stop()
	for {
		if err := s.draw(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case sig := <-ends:
			return cli.Interrupted(sig)
		case sig := <-changes:
			if sig == screen.Continued {
				if err := s.screen.Enter(); err != nil {
					return err
				}
			}
		case k, ok := <-keys:
			if !ok {
				return errors.New("fastlimit top: the terminal was closed")
			}
			switch s.view.Press(k) {
			case top.Quit:
				return nil
			case top.Refresh:
				s.ask(ctx)
			}
		case <-tick.C:
			if !s.view.Paused && !s.asking {
				s.ask(ctx)
			}
		case a := <-s.answers:
			s.take(a)
			if s.again {
				s.ask(ctx)
			}
		}
	}
}

func (s *topScreen) draw() error {
	width, height := s.screen.Size()
	lines := s.view.Lines(width, height, time.Now())
	painted := make([]string, len(lines))
	for i, l := range lines {
		painted[i] = l.Paint(s.colors)
	}
	return s.screen.Draw(painted)
}

// ask asks the node, unless an answer is on its way: then once that has come.
func (s *topScreen) ask(ctx context.Context) {
	if s.again = s.asking; s.asking {
		return
	}
	s.asking = true
	order, rule := s.view.Order, s.view.Rule
	go func() {
		d, _, err := s.cmd.ask(ctx, max(s.cmd.N, leastAsked), order, rule)
		s.answers <- topAnswer{d, err}
	}()
}

// take shows an answer, unless the view is to stay as it is.
func (s *topScreen) take(a topAnswer) {
	s.asking = false
	switch {
	case a.err != nil:
		s.view.Fail(a.err)
	case !s.view.Paused:
		s.view.Show(a.doc, time.Now())
	}
}
