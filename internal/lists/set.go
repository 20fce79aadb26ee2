package lists

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/internal/namedfile"
	"github.com/fastlimit/fastlimit/policy"
)

// File is a file with entries of one of the lists.
type File struct {
	List     policy.ListVerdict // ListAllow or ListDeny
	Path     string
	Prefixes []netip.Prefix // as last read
}

// Config configures a [Set].
type Config struct {
	Allow, Deny []netip.Prefix // written in the configuration
	Files       []File         // as read with the configuration

	// Read reads a file of at most MaxFile bytes.
	Read func(path string) ([]byte, error)
	Log  *slog.Logger
}

// Count returns the number of entries, in files and in the configuration.
func (c *Config) Count() int {
	n := len(c.Allow) + len(c.Deny)
	for i := range c.Files {
		n += len(c.Files[i].Prefixes)
	}
	return n
}

// lookEvery is the interval between checks of the files.
const lookEvery = time.Second

// Set follows the files of a configuration. Make it with [New]; all methods are safe for
// concurrent use.
type Set struct {
	config Config
	again  chan struct{}

	mu    sync.Mutex // guards what follows; held briefly
	files []followed
}

// followed is a file and its state. Only the goroutine that checks writes it, and holds mu for what Files
// shows.
type followed struct {
	File
	looked   bool        // at least once
	last     fs.FileInfo // at the last check
	tried    bool        // it has been read since the configuration was
	taken    fs.FileInfo // as last read, with or without success
	at       time.Time   // when it was last read successfully
	err      string      // what was wrong when it was last read; "": nothing
	failures uint64
}

// New returns a set for the files of a configuration that has just been read.
func New(c Config) *Set {
	s := &Set{config: c, again: make(chan struct{}, 1)}
	now := time.Now()
	for _, f := range c.Files {
		s.files = append(s.files, followed{File: f, at: now})
	}
	return s
}

// State is the state of a file.
type State struct {
	List     policy.ListVerdict
	Path     string
	Entries  int
	Read     time.Time // when its entries were read
	Error    string    // why its entries are old ones; "": they are current
	Failures uint64    // how often it could not be read
}

// Files returns the states of all files, in the order of the configuration.
func (s *Set) Files() []State {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]State, len(s.files))
	for i := range s.files {
		f := &s.files[i]
		all[i] = State{f.List, f.Path, len(f.Prefixes), f.at, f.err, f.failures}
	}
	return all
}

// Start checks the files once a second until ctx ends. apply makes new requests be decided by new lists; one
// goroutine calls it.
func (s *Set) Start(ctx context.Context, apply func(*policy.Lists)) (stopped <-chan struct{}) {
	end := make(chan struct{})
	go func() {
		defer close(end)
		if len(s.files) == 0 {
			return
		}
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		for {
			anyway := false
			select {
			case <-ctx.Done():
				return
			case <-s.again:
				anyway = true
			case <-ticker.C:
			}
			s.look(anyway, apply)
		}
	}()
	return end
}

// Reread has all files read, changed or not. It does not wait for that.
func (s *Set) Reread() {
	select {
	case s.again <- struct{}{}:
	default: // already asked for
	}
}

// look reads the files that have changed, and applies the lists if any entry has. It logs afterwards, so what
// the log says is in force.
func (s *Set) look(anyway bool, apply func(*policy.Lists)) {
	changed := false
	var results []outcome
	for i := range s.files {
		if s.due(i, anyway) {
			n := s.read(i)
			changed = changed || n.changed
			results = append(results, n)
		}
	}
	if changed {
		l, err := s.compile()
		if err != nil {
			panic("BUG: lists: an entry that was checked: " + err.Error())
		}
		apply(l)
	}
	for i := range results {
		s.report(&results[i])
	}
}

// outcome is the result of reading a file.
type outcome struct {
	*followed      // nil: nothing
	changed   bool // its entries
	mended    bool // it had a mistake before
	before    int  // number of entries
}

// due reports whether a file has to be read: it differs from when it was last read, and has not changed since
// the last check.
func (s *Set) due(i int, anyway bool) bool {
	f := &s.files[i]
	now := namedfile.Look(f.Path)
	settled := f.looked && namedfile.Same(now, f.last)
	known := f.tried && namedfile.Same(now, f.taken) // else it may have changed since the configuration was read
	f.looked, f.last = true, now
	return anyway || settled && !known
}

// read reads a file. It ignores one that is being written.
func (s *Set) read(i int) (n outcome) {
	f := &s.files[i]
	before, entries := f.last, len(f.Prefixes)
	prefixes, err := s.parse(f)
	if err == nil && !namedfile.Same(before, namedfile.Look(f.Path)) {
		return outcome{} // wait for the next check
	}
	n = outcome{followed: f, before: entries}
	s.mu.Lock()
	defer s.mu.Unlock()
	f.tried, f.taken = true, before
	if err != nil {
		f.err = err.Error()
		f.failures++
		return n
	}
	n.mended = f.err != ""
	f.at, f.err = time.Now(), ""
	if n.changed = !slices.Equal(f.Prefixes, prefixes); n.changed {
		f.Prefixes = prefixes
	}
	return n
}

// report logs the result of reading a file. One that has lost all its entries is more likely a failed
// download than intended.
func (s *Set) report(n *outcome) {
	if n.followed == nil {
		return
	}
	attrs := []any{slog.String("list", n.List.String()), slog.String("file", n.Path), slog.Int("entries", len(n.Prefixes))}
	switch {
	case n.err != "":
		s.config.Log.Error("the list file could not be read again: its old entries stay in force", append(attrs, slog.String("error", n.err))...)
	case n.changed && len(n.Prefixes) == 0:
		s.config.Log.Warn("the list file no longer has entries", append(attrs, slog.Int("before", n.before))...)
	case n.changed, n.mended:
		s.config.Log.Info("the list file was read again", append(attrs, slog.Int("before", n.before))...)
	}
}

// parse reads a file. Its error begins with the position, if there is one.
func (s *Set) parse(f *followed) ([]netip.Prefix, error) {
	data, err := s.config.Read(f.Path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	if len(data) > MaxFile {
		return nil, fmt.Errorf("%s: is larger than %d MiB; is this the right file?", f.Path, MaxFile>>20)
	}
	prefixes, wrong := Parse(data)
	if len(wrong) > 0 {
		text := f.Path + ":" + wrong[0].Error()
		if n := len(wrong) - 1; n > 0 {
			text += fmt.Sprintf(" (and %d more mistakes or lines)", n)
		}
		return nil, errors.New(text)
	}
	n := len(s.config.Allow) + len(s.config.Deny) - len(f.Prefixes) + len(prefixes)
	for i := range s.files {
		n += len(s.files[i].Prefixes)
	}
	if n > MaxEntries {
		return nil, fmt.Errorf("%s: %d entries with all other lists, more than %d; merge neighbours into shorter prefixes", f.Path, n, MaxEntries)
	}
	return prefixes, nil
}

// compile makes lists from all entries.
func (s *Set) compile() (*policy.Lists, error) {
	allow, deny := [][]netip.Prefix{s.config.Allow}, [][]netip.Prefix{s.config.Deny}
	for i := range s.files {
		if f := &s.files[i]; f.List == policy.ListDeny {
			deny = append(deny, f.Prefixes)
		} else {
			allow = append(allow, f.Prefixes)
		}
	}
	return policy.NewLists(slices.Concat(allow...), slices.Concat(deny...))
}
