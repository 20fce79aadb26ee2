package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/bans"
	"github.com/fastlimit/fastlimit/internal/config"
	"github.com/fastlimit/fastlimit/internal/frames"
	"github.com/fastlimit/fastlimit/internal/liverules"
	"github.com/fastlimit/fastlimit/internal/machine"
	"github.com/fastlimit/fastlimit/internal/metrics"
	"github.com/fastlimit/fastlimit/internal/overrides"
	"github.com/fastlimit/fastlimit/internal/statefile"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/server"
)

// state is what a node knows of its clients, in a file (state_file). At the start it is
// read before requests are, and from then on written until the node is closed. While another
// process has the file, such as the one that this is to replace, nothing is written; when that
// lets go, what it knew at last is merged into what this one has learnt meanwhile.
type state struct {
	path string
	log  *slog.Logger
	most int64           // bytes of a limiter that may be read
	file *statefile.File // nil: another process has it

	limiter   atomic.Pointer[fastlimit.Limiter] // which is saved
	rules     *liverules.Set
	bans      *bans.Set
	overrides *overrides.Set
	keeper    *statefile.Keeper
	before    *fastlimit.Limiter // of the earlier process, read at the start; nil: none of use
	saved     nodeState          // read, and not restored yet
	age       time.Duration

	loaded atomic.Pointer[metrics.Loaded]
	stop   func() // nil: not started
}

// How often it is written, and looked whether another process has let go. Tests are in a hurry.
var (
	stateEvery = statefile.Every
	stateLook  = 200 * time.Millisecond
)

// openState takes the file, if the configuration names one; nil if it names none. The error
// says why there cannot be one.
func openState(cfg *config.Config, log *slog.Logger) (*state, error) {
	if cfg.StateFile == "" {
		return nil, nil
	}
	// A limiter that is read is there beside the new one for as long as it takes to take over from it.
	s := &state{path: cfg.StateFile, log: log.With(slog.String("state_file", cfg.StateFile)), most: 2 * max(cfg.Limits.Memory, limit.DefaultMemory/2)}
	s.result(metrics.LoadedNone)
	f, err := statefile.Open(s.path)
	switch {
	case errors.Is(err, statefile.ErrHeld):
		s.result(metrics.LoadedLater)
		s.log.Info("another process uses the state file: the rest of its state is taken over when it ends")
	case err != nil:
		return nil, fmt.Errorf("state_file: %w", err)
	}
	s.file = f
	return s, nil
}

// load reads what an earlier process has left, and has r go on with its live rules: by these the
// limiter is to be made, as a level that does not fit a smaller burst would be forgotten. s may be nil.
func (s *state) load(r *liverules.Set) {
	if s != nil {
		s.before, s.rules = s.read(), r
		s.restoreRules()
	}
}

// newLimiter makes the limiter, which goes on with what load has read. s may be nil.
func (s *state) newLimiter(c fastlimit.Config) (*fastlimit.Limiter, error) {
	if s == nil {
		return fastlimit.New(c)
	}
	var l *fastlimit.Limiter
	if s.before != nil {
		var err error
		if l, err = s.before.With(c); err != nil {
			s.ignore(err, metrics.LoadedUnfit)
		} else {
			if s.file != nil {
				s.result(metrics.LoadedAll)
			}
			s.log.Info("continuing with the state of an earlier process", slog.Duration("age", s.age))
		}
		s.before = nil
	}
	if l == nil {
		var err error
		if l, err = fastlimit.New(c); err != nil {
			return nil, err
		}
	}
	s.limiter.Store(l)
	return l, nil
}

// follow has another limiter saved from now on, which goes on with the state of the one before.
func (s *state) follow(l *fastlimit.Limiter) {
	if s != nil {
		s.limiter.Store(l)
	}
}

// show lets the server show how it goes.
func (s *state) show(sc *server.Config) {
	s.keeper = statefile.NewKeeper(statefile.Config{Path: s.path, Write: s.write, Log: s.log, Every: stateEvery})
	sc.Collectors = append(sc.Collectors, metrics.State(s.keeper.Stats, s.loaded.Load))
}

// start keeps the file up to date until the node is closed. merged is called when the limiter
// has learnt what another process has left.
func (s *state) start(b *bans.Set, o *overrides.Set, merged func()) {
	s.bans, s.overrides = b, o
	s.restore()
	s.stop = background(func(ctx context.Context) {
		if s.file != nil || s.takeOver(ctx, merged) {
			s.keeper.Run(ctx, s.file)
		}
	})
}

// close writes the file a last time, when nothing changes any more, and lets go of it.
func (s *state) close() {
	if s == nil {
		return
	}
	if s.stop != nil {
		s.stop()
	}
	if s.file == nil {
		return
	}
	if s.stop != nil {
		s.keeper.Finish(s.file)
	}
	if err := s.file.Close(); err != nil {
		s.log.Warn("state file: closing", slog.Any("error", err))
	}
}

// takeOver waits until the other process lets go of the file, and merges what it has left.
func (s *state) takeOver(ctx context.Context, merged func()) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(stateLook):
		}
		f, err := statefile.Open(s.path)
		if err != nil {
			continue // it is still there, or the directory is gone for now
		}
		s.file = f
		before := s.read()
		if before == nil {
			return true
		}
		s.restoreRules()
		if err := s.limiter.Load().Merge(before); err != nil {
			s.ignore(err, metrics.LoadedUnfit)
			return true
		}
		merged()
		s.restore()
		s.result(metrics.LoadedMerged)
		s.log.Info("took over the state of the previous process", slog.Duration("age", s.age))
		return true
	}
}

// The file begins with what the command keeps: frames of their own, before the limiter's.
const (
	nodeMagic   = "fastlnd\n"
	nodeVersion = 1
	frameNode   = 1 // a nodeState as JSON
)

// nodeState is what a node keeps besides what its limiter does.
type nodeState struct {
	At   machine.Instant
	Bans []bans.Saved // of operators

	Overrides []overrides.Saved `json:",omitempty"` // likewise, where no store has them
	Rules     []liverules.Saved `json:",omitempty"`
	Shared    liverules.Shared  `json:",omitempty"` // of them, by all nodes
}

// write writes what is to be in the file.
func (s *state) write(w io.Writer) error {
	body, err := json.Marshal(nodeState{At: machine.Now(), Bans: s.bans.Save(), Overrides: s.overrides.Save(), Rules: s.rules.Save(), Shared: s.rules.SaveShared()})
	if err != nil {
		return err
	}
	f, err := frames.NewWriter(w, nodeMagic, nodeVersion)
	if err == nil {
		err = f.Frame(frameNode, body)
	}
	if err == nil {
		err = f.End()
	}
	if err != nil {
		return err
	}
	return s.limiter.Load().Save(w)
}

// read reads the file. It returns nil if there is none, or none of use, and says why.
func (s *state) read() *fastlimit.Limiter {
	r, err := statefile.Read(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		s.log.Info("there is no state file yet: all clients start with empty buckets")
		return nil
	}
	var l *fastlimit.Limiter
	if err == nil {
		defer r.Close()
		l, err = s.readFrom(bufio.NewReaderSize(r, 1<<16))
	}
	if err != nil {
		s.ignore(err, whyUnfit(err))
		return nil
	}
	return l
}

func (s *state) readFrom(r io.Reader) (*fastlimit.Limiter, error) {
	f, err := frames.NewReader(r, nodeMagic, nodeVersion)
	if err != nil {
		return nil, err
	}
	kind, body, err := f.Next()
	if err != nil {
		return nil, err
	}
	var n nodeState
	if err := json.Unmarshal(body, &n); err != nil || kind != frameNode {
		return nil, fmt.Errorf("%w: what the node kept", frames.ErrDamaged)
	}
	if _, _, err = f.Next(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: what the node kept", frames.ErrDamaged)
	}
	if s.age, err = machine.Now().Since(n.At); err != nil {
		return nil, err
	}
	l, err := fastlimit.Load(r, fastlimit.LoadOptions{Memory: s.most})
	if err == nil {
		s.saved = n
	}
	return l, err
}

// restoreRules has the live rules stay in force that were read.
func (s *state) restoreRules() {
	s.rules.RestoreShared(s.saved.Shared, s.age)
	switch n, err := s.rules.Restore(s.saved.Rules, s.age); {
	case err != nil:
		s.log.Error("live rules of the previous process are not in force", slog.Any("error", err))
	case n > 0:
		s.log.Info("live rules stay in force", slog.Int("rules", n))
	}
}

// restore has the bans and overrides of operators go on that were read.
func (s *state) restore() {
	if n := s.bans.Restore(s.saved.Bans, s.age); n > 0 {
		s.log.Info("bans by operators stay in force", slog.Int("bans", n))
	}
	ctx, cancel := context.WithTimeout(context.Background(), restoreTimeout)
	defer cancel()
	switch n, err := s.overrides.Restore(ctx, s.saved.Overrides, s.age); {
	case err != nil:
		s.log.Error("live overrides of the previous process are not in force", slog.Any("error", err))
	case n > 0:
		s.log.Info("live overrides stay in force", slog.Int("overrides", n))
	}
	s.saved = nodeState{}
}

// restoreTimeout bounds what needs no more than the memory of this process.
const restoreTimeout = 10 * time.Second

// ignore says that the file is of no use. It is replaced at the next turn.
func (s *state) ignore(err error, why metrics.Loaded) {
	s.result(why)
	s.log.Warn("the state file is ignored, and all clients start with empty buckets", slog.String("reason", string(why)), slog.Any("error", err))
}

func (s *state) result(r metrics.Loaded) { s.loaded.Store(&r) }

// whyUnfit is the class of an error of reading the file.
func whyUnfit(err error) metrics.Loaded {
	for _, c := range [...]struct {
		err error
		why metrics.Loaded
	}{
		{frames.ErrForeign, metrics.LoadedForeign},
		{frames.ErrVersion, metrics.LoadedVersion},
		{frames.ErrTorn, metrics.LoadedTorn},
		{frames.ErrDamaged, metrics.LoadedDamaged},
		{machine.ErrOtherMachine, metrics.LoadedMachine},
		{machine.ErrFuture, metrics.LoadedFuture},
		{frames.ErrTooLarge, metrics.LoadedTooLarge},
		{machine.ErrTooOld, metrics.LoadedTooOld},
	} {
		if errors.Is(err, c.err) {
			return c.why
		}
	}
	return metrics.LoadedUnreadable
}
