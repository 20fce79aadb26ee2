package feed

import "time"

const (
	// checkEvery is the time between two checks whether the kernel still has its table.
	checkEvery = time.Second

	// expireEvery is the minimum time between two checks for bans that have ended.
	expireEvery = 20 * time.Millisecond

	// Bounds of the pause after a failure, which doubles from one to the next.
	shortestPause = time.Second
	longestPause  = time.Minute

	// calm is the time without failures after which pauses start over.
	calm = 10 * time.Second
)

// worker is the state of the goroutine that calls the writer.
type worker struct {
	*Feed
	writer Writer

	lost     bool          // the table has to be made again
	pause    time.Duration // the last one after a failure
	failedAt time.Duration // when it was
	openedAt time.Duration // when the table was made again, or that was tried
	next     time.Duration // when the kernel is checked next
	downAt   time.Duration // start of its failure

	sent    []sending // the batch
	changes []Change

	packets, bytes uint64 // of earlier tables
	seenP, seenB   uint64 // of this one, when it was last checked
}

func (f *Feed) work() {
	defer close(f.ended)
	w := &worker{Feed: f, writer: f.config.Writer, failedAt: -calm, openedAt: -calm, next: checkEvery}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-f.quit:
			if !f.config.Shadow {
				f.up.Store(false)
				f.err = f.config.Writer.Close()
			}
			return
		case <-f.wake:
		case <-timer.C:
		}
		end, some := f.bans.expire(f.now())
		if !f.config.Shadow {
			w.step()
		}
		timer.Reset(w.until(end, some))
	}
}

// until returns how long the worker sleeps: to the next check or the next end of a ban.
func (w *worker) until(end time.Duration, some bool) time.Duration {
	now := w.now()
	pause := checkEvery
	if !w.config.Shadow {
		pause = max(w.next-now, 0)
	}
	if some {
		pause = min(pause, max(end-now, expireEvery))
	}
	return pause
}

// step does what is due. While the kernel is down it waits until the pause is over.
func (w *worker) step() {
	due := w.now() >= w.next
	if !w.up.Load() && !due {
		return
	}
	if err := w.try(due); err != nil {
		w.fail(err)
		return
	}
	if !w.up.Load() {
		w.up.Store(true)
		w.config.Logger.Info("the kernel drops packets of banned clients again", "after", (w.now() - w.downAt).Round(time.Millisecond))
	}
}

// try opens the table if it was lost, or checks that it is there if that is due, and sends
// what is queued.
func (w *worker) try(due bool) error {
	if w.lost {
		if err := w.reopen(); err != nil {
			return err
		}
	}
	if due {
		if err := w.check(); err != nil {
			return err
		}
		w.next = w.now() + checkEvery
	}
	return w.send()
}

func (w *worker) reopen() error {
	w.openedAt = w.now()
	if err := w.writer.Open(); err != nil {
		return err
	}
	w.lost = false
	w.packets, w.bytes = w.packets+w.seenP, w.bytes+w.seenB
	w.seenP, w.seenB = 0, 0
	w.bans.refill()
	w.counters.refills.Add(1)
	return nil
}

// check reads the counters, and thereby checks that the table is there.
func (w *worker) check() error {
	packets, bytes, err := w.writer.Counters()
	if err != nil {
		return err
	}
	w.seenP, w.seenB = max(w.seenP, packets), max(w.seenB, bytes)
	w.counters.packets.Store(w.packets + w.seenP)
	w.counters.bytes.Store(w.bytes + w.seenB)
	return nil
}

// send empties the queue. It stops early only for Close, and for a check that is due.
func (w *worker) send() error {
	for {
		w.sent, w.changes = w.bans.take(w.now(), w.sent[:0], w.changes[:0])
		if len(w.changes) == 0 {
			return nil
		}
		if err := w.apply(w.sent, w.changes); err != nil {
			return err
		}
		select {
		case <-w.quit:
			return nil
		default:
		}
		if w.now() >= w.next {
			w.signal()
			return nil
		}
	}
}

// apply makes the writer apply the changes. If one of them is at fault, the others are
// applied.
func (w *worker) apply(sent []sending, changes []Change) error {
	began := w.now()
	err := w.writer.Apply(changes)
	now := w.now()
	took := now - began
	if err == nil {
		w.bans.landed(sent, took, now)
		return nil
	}
	class := classOf(err)
	if half := len(changes) / 2; half > 0 && (class == ClassElement || class == ClassFull) {
		later(changes, took)
		if err := w.apply(sent[:half], changes[:half]); err != nil {
			w.bans.failed(sent[half:], took, now, true)
			return err
		}
		later(changes[half:], w.now()-now)
		return w.apply(sent[half:], changes[half:])
	}
	w.bans.failed(sent, took, now, class != ClassElement)
	if class != ClassElement {
		return err
	}
	if w.counters.errors[class].Add(1) == 1 {
		w.config.Logger.Warn("the kernel does not take a ban; further ones are counted", "prefix", changes[0].Prefix, "error", err)
	}
	return nil
}

// later shortens lives by the time that has passed.
func later(changes []Change, by time.Duration) {
	for i := range changes {
		if c := &changes[i]; c.For != 0 {
			c.For = max(c.For-by, least)
		}
	}
}

// fail records a failure and when to try again.
func (w *worker) fail(err error) {
	class, now := classOf(err), w.now()
	w.counters.errors[class].Add(1)
	wait := time.Duration(0)
	if class != ClassLost || w.lost || now-w.openedAt < calm {
		if now-w.failedAt > calm+w.pause { // it has worked meanwhile, and not only just now
			w.pause = 0
		}
		w.pause = min(max(2*w.pause, shortestPause), longestPause)
		w.failedAt, wait = now, w.pause
	}
	w.lost = w.lost || class == ClassLost
	w.next = now + wait
	if w.up.Swap(false) {
		w.downAt = now
		w.config.Logger.Warn("the kernel does not drop packets of banned clients; they are answered until it does",
			"class", class.String(), "error", err, "retry_in", wait)
	}
}
