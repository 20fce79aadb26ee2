package lists

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/policy"
)

// follow is a set of one file of each list, looked at by hand.
type follow struct {
	*Set
	t           *testing.T
	allow, deny string
	log         bytes.Buffer
	lists       *policy.Lists
	applied     int
	writes      int
}

func newFollow(t *testing.T, inlineAllow ...netip.Prefix) *follow {
	f := &follow{t: t, allow: filepath.Join(t.TempDir(), "allow.txt"), deny: filepath.Join(t.TempDir(), "deny.txt")}
	f.write(f.allow, "10.0.0.0/8\n")
	f.write(f.deny, "192.0.2.0/24\n")
	f.Set = New(Config{
		Allow: inlineAllow,
		Files: []File{
			{policy.ListAllow, f.allow, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
			{policy.ListDeny, f.deny, []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
		},
		Read: os.ReadFile, Log: slog.New(slog.NewTextHandler(&f.log, nil)),
	})
	return f
}

// write replaces the content of a file, with a new modification time.
func (f *follow) write(path, text string) {
	f.t.Helper()
	f.writes++
	at := time.Unix(1_700_000_000+int64(f.writes), 0)
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, at, at)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *follow) see(anyway bool) {
	f.look(anyway, func(l *policy.Lists) { f.lists, f.applied = l, f.applied+1 })
}

// check checks how often lists were applied so far, and who is on which list in the last one.
func (f *follow) check(applied int, allowed, denied string) {
	f.t.Helper()
	if f.applied != applied {
		f.t.Errorf("applied %d times, want %d", f.applied, applied)
	}
	for list, who := range map[policy.ListVerdict]string{policy.ListAllow: allowed, policy.ListDeny: denied} {
		for a := range strings.FieldsSeq(who) {
			if got := f.lists.Lookup(netip.MustParseAddr(a)); got != list {
				f.t.Errorf("%s is on list %v, want %v", a, got, list)
			}
		}
	}
}

// said checks how often the log has a text by now.
func (f *follow) said(text string, times int) {
	f.t.Helper()
	if n := strings.Count(f.log.String(), text); n != times {
		f.t.Errorf("%d times %q, want %d, in\n%s", n, text, times, f.log.String())
	}
}

func TestFollow(t *testing.T) {
	t.Parallel()
	f := newFollow(t, netip.MustParsePrefix("198.51.100.7/32"))
	for range 4 { // nothing has changed
		f.see(false)
	}
	f.check(0, "", "")

	f.write(f.deny, "192.0.2.0/24\n198.51.100.0/24\n")
	f.see(false) // it may still be written
	f.check(0, "", "")
	f.see(false)
	f.check(1, "10.1.1.1 198.51.100.7", "192.0.2.1 198.51.100.1")
	f.said(`msg="the list file was read again" list=deny file=`+f.deny+" entries=2 before=1", 1)

	// A mistake changes nothing of its file, and the other one is read all the same.
	f.write(f.deny, "198.51.100.7\n192.0.2.300\n")
	f.write(f.allow, "10.0.0.0/8\n203.0.113.0/24\n")
	for range 5 {
		f.see(false)
	}
	f.check(2, "10.1.1.1 203.0.113.1 198.51.100.7", "192.0.2.1 198.51.100.1")
	f.said(f.deny+`:2:1: \"192.0.2.300\" is neither an address nor a prefix; write`, 1)
	if s := f.Files()[1]; s.Entries != 2 || s.Failures != 1 || !strings.HasPrefix(s.Error, f.deny+":2:1: ") || f.Files()[0].Error != "" {
		t.Errorf("%+v", s)
	}
	f.see(true) // asked for, it says so again
	f.said("its old entries stay", 2)

	// Mended as it was before: nothing to apply, and said.
	f.write(f.deny, "192.0.2.0/24\n198.51.100.0/24\n")
	f.see(true)
	f.check(2, "", "")
	f.said("was read again", 3)
	if s := f.Files()[1]; s.Error != "" || s.Failures != 2 {
		t.Errorf("%+v", s)
	}

	// A file that is gone, and one that was emptied.
	if err := os.Remove(f.allow); err != nil {
		t.Fatal(err)
	}
	f.write(f.deny, "")
	for range 4 {
		f.see(false)
	}
	f.check(3, "10.1.1.1 203.0.113.1", "")
	if f.lists.Lookup(netip.MustParseAddr("192.0.2.1")) != policy.ListNone {
		t.Error("an entry is left of a list that was emptied")
	}
	f.said("no such file", 1)
	f.said(`level=WARN msg="the list file no longer has entries" list=deny`, 1)
}

// A file that is written while it is read is not taken for what it was in between.
func TestWrittenWhileRead(t *testing.T) {
	t.Parallel()
	f := newFollow(t)
	read := f.config.Read
	f.config.Read = func(path string) ([]byte, error) {
		b, err := read(path)
		if path == f.deny {
			f.config.Read = read
			f.write(f.deny, "192.0.2.0/24\n203.0.113.0/24\n")
		}
		return b, err
	}
	f.write(f.deny, "") // as far as it has got
	f.see(false)
	f.see(false)
	f.check(0, "", "")
	f.see(false) // seen for the first time
	f.see(false)
	f.check(1, "10.0.0.1", "192.0.2.1 203.0.113.1")
}

// All lists together have a bound that a file which grows does not pass.
func TestTooManyEntries(t *testing.T) {
	t.Parallel()
	f := newFollow(t)
	f.write(f.deny, strings.Repeat("::1\n", MaxEntries))
	f.see(true)
	f.check(0, "", "")
	if s := f.Files()[1]; !strings.Contains(s.Error, "1000001 entries with all other lists, more than 1000000") {
		t.Errorf("%+v", s)
	}
	f.config.Read = func(string) ([]byte, error) { return make([]byte, MaxFile+1), nil }
	if f.see(true); !strings.Contains(f.Files()[0].Error, "is larger than 64 MiB") {
		t.Errorf("%+v", f.Files()[0])
	}
}

// Start looks once a second, and at once when it is asked to; it ends with its context.
func TestStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollow(t)
		applied := make(chan *policy.Lists, 1)
		ctx, cancel := context.WithCancel(t.Context())
		stopped := f.Start(ctx, func(l *policy.Lists) { applied <- l })
		f.write(f.deny, "203.0.113.0/24\n")
		began := time.Now()
		<-applied
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("a change was applied after %v", took)
		}
		f.write(f.deny, "192.0.2.0/24\n")
		began = time.Now()
		f.Reread()
		f.Reread()
		<-applied
		if took := time.Since(began); took != 0 {
			t.Errorf("when asked for, it was applied after %v", took)
		}
		cancel()
		<-stopped
	})
	<-New(Config{}).Start(t.Context(), nil) // nothing to do
}
