package engine

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/fastlimit/fastlimit/internal/frames"
	"github.com/fastlimit/fastlimit/internal/machine"
	"github.com/fastlimit/fastlimit/internal/state"
	"github.com/fastlimit/fastlimit/limit"
)

// savedLimiter is a limiter that has something in each of its tables, and what Save
// writes of it.
func savedLimiter(t testing.TB) (*Limiter, []byte) {
	t.Helper()
	l, err := New(Config{Memory: limit.MinMemory, Clock: new(ManualClock), Rules: []limit.RuleConfig{
		withBan(rule("b", 1, time.Minute, 20), limit.BanPolicy{After: 2, For: time.Hour}), windowRule("w", 12, time.Hour),
		slidingRule("s", 12, time.Hour), logRule("l", 9, time.Hour),
	}})
	if err != nil {
		t.Fatal(err)
	}
	setTime(l, time.Hour)
	for i := range 200 {
		for _, r := range l.rules {
			for range 15 * (i % 3) {
				r.Allow(r.AddrKey(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})))
			}
		}
	}
	var file bytes.Buffer
	if err := l.save(&file, machine.Instant{}); err != nil {
		t.Fatal(err)
	}
	return l, file.Bytes()
}

func loadManual(file []byte) (*Limiter, error) {
	return Load(bytes.NewReader(file), LoadOptions{Clock: new(ManualClock), Memory: 4 * limit.MinMemory})
}

// TestDamagedStates: of a file that is cut short, or has one bit wrong, nothing is taken
// over, and the error says so.
func TestDamagedStates(t *testing.T) {
	t.Parallel()
	_, file := savedLimiter(t)
	if _, err := loadManual(file); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 47))
	for range 300 {
		n := rng.IntN(len(file))
		if _, err := loadManual(file[:n]); !errors.Is(err, frames.ErrTorn) {
			t.Fatalf("%d of %d bytes: %v", n, len(file), err)
		}
		bad := bytes.Clone(file)
		bad[n] ^= 1 << rng.IntN(8)
		if _, err := loadManual(bad); !errors.Is(err, ErrState) {
			t.Fatalf("byte %d wrong: %v", n, err)
		}
	}
	for what, c := range map[string]struct {
		file []byte
		want error
	}{
		"another version": {append(append([]byte(state.Magic), state.Version+1, 0, 0, 0), file[12:]...), frames.ErrVersion},
		"a text":          {[]byte("rules: [{name: per-ip}]"), frames.ErrForeign},
		"nothing":         {nil, frames.ErrTorn},
		"half of it":      {file[:len(file)/2], frames.ErrTorn},
	} {
		if _, err := loadManual(c.file); !errors.Is(err, c.want) || !errors.Is(err, ErrState) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
	broken := errors.New("a disk that is broken")
	if _, err := Load(io.MultiReader(bytes.NewReader(file[:100]), iotest.ErrReader(broken)), LoadOptions{Clock: new(ManualClock)}); !errors.Is(err, broken) || errors.Is(err, ErrState) {
		t.Errorf("%v, want that of the reader", err)
	}
}

// TestLoadMemory: no more is taken than is allowed, whatever a file says.
func TestLoadMemory(t *testing.T) {
	t.Parallel()
	l, file := savedLimiter(t)
	need := l.Plan().Memory
	for _, c := range []struct {
		memory int64
		want   error
	}{{need / 2, frames.ErrTooLarge}, {1, frames.ErrTooLarge}, {need * 5 / 4, nil}} {
		_, err := Load(bytes.NewReader(file), LoadOptions{Clock: new(ManualClock), Memory: c.memory})
		if !errors.Is(err, c.want) {
			t.Errorf("memory %d of %d: %v, want %v", c.memory, need, err, c.want)
		}
	}
	for field, value := range map[string]any{"Blocks": 1 << 40, "Sets": 1 << 60, "Bans": -1, "FilterWords": 1 << 62, "Tiers": []int{1}, "Live": make([]state.Tier, 1025)} {
		if _, err := loadManual(withHeader(t, file, field, value)); !errors.Is(err, ErrState) {
			t.Errorf("%s of %v: %v", field, value, err)
		}
	}
}

// withHeader is the file with another value in its header, and right checksums.
func withHeader(t *testing.T, file []byte, field string, value any) []byte {
	t.Helper()
	r, err := frames.NewReader(bytes.NewReader(file), state.Magic, state.Version)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w, err := frames.NewWriter(&out, state.Magic, state.Version)
	for err == nil {
		var kind byte
		var body []byte
		if kind, body, err = r.Next(); err != nil {
			break
		}
		if kind == 1 { // the header
			var head map[string]any
			if err := json.Unmarshal(body, &head); err != nil {
				t.Fatal(err)
			}
			in := head
			if _, ok := head[field]; !ok {
				in = head["Rules"].([]any)[0].(map[string]any)
			}
			in[field] = value
			body, _ = json.Marshal(head)
		}
		err = w.Frame(kind, body)
	}
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestClockOfLoaded: the machine's clock of a limiter continues from where it was, by the time that has
// passed since, unless that is unknown.
func TestClockOfLoaded(t *testing.T) {
	t.Parallel()
	l, err := New(Config{Memory: limit.MinMemory, Rules: []limit.RuleConfig{rule("a", 1, time.Minute, 10)}})
	if err != nil {
		t.Fatal(err)
	}
	startEarlier(l, time.Hour)
	at := machine.Instant{Machine: "m", Boot: "b", Up: time.Hour, Wall: time.Unix(1e9, 0)}
	var file bytes.Buffer
	if err := l.save(&file, at); err != nil {
		t.Fatal(err)
	}
	years := at
	years.Up += 150 * 365 * 24 * time.Hour
	for what, c := range map[string]struct {
		now  machine.Instant
		age  time.Duration
		want error
	}{
		"the same start": {machine.Instant{Machine: "m", Boot: "b", Up: 2 * time.Hour, Wall: time.Unix(5, 0)}, time.Hour, nil},
		"another start":  {machine.Instant{Machine: "m", Boot: "c", Up: time.Minute, Wall: at.Wall.Add(3 * time.Hour)}, 3 * time.Hour, nil},
		"the future":     {machine.Instant{Machine: "m", Boot: "b", Up: time.Minute, Wall: at.Wall}, 0, machine.ErrFuture},
		"elsewhere":      {machine.Instant{Machine: "n", Boot: "b", Up: 2 * time.Hour, Wall: at.Wall}, 0, machine.ErrOtherMachine},
		"ages ago":       {years, 0, machine.ErrTooOld},
	} {
		loaded, err := load(bytes.NewReader(file.Bytes()), LoadOptions{Memory: limit.DefaultMemory}, func() machine.Instant { return c.now })
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
		if err != nil {
			continue
		}
		if now := loaded.Now() - time.Hour - c.age; now < 0 || now > time.Minute {
			t.Errorf("%s: %v after the time that it should be", what, now)
		}
	}
	if _, err := Load(bytes.NewReader(file.Bytes()), LoadOptions{Clock: new(ManualClock)}); err == nil || !strings.Contains(err.Error(), "Clock") {
		t.Errorf("a ManualClock for a machine's: %v", err)
	}
}

// FuzzLoad: Load never panics and takes no more than it may, whatever it reads; what it
// takes for right can be used, and saved again.
func FuzzLoad(f *testing.F) {
	_, file := savedLimiter(f)
	for rest := file[12:]; len(rest) > 5; { // the frames, without their checksums
		n := binary.LittleEndian.Uint32(rest[1:])
		f.Add(rest[0], rest[5:5+n], uint16(0), byte(0))
		f.Add(rest[0], rest[5:5+n], uint16(n/2), byte(0x81))
		rest = rest[5+n+8:]
	}
	f.Fuzz(func(t *testing.T, kind byte, body []byte, at uint16, flip byte) {
		if int(at) < len(body) {
			body = bytes.Clone(body)
			body[at] ^= flip
		}
		var out bytes.Buffer
		w, err := frames.NewWriter(&out, state.Magic, state.Version)
		r, err2 := frames.NewReader(bytes.NewReader(file), state.Magic, state.Version)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		// In place of the first frame of its kind, or before the end.
		replaced := kind == 0
		for {
			k, b, err := r.Next()
			if err != nil {
				break
			}
			if k == kind && !replaced {
				b, replaced = body, true
			}
			if err := w.Frame(k, b); err != nil {
				t.Fatal(err)
			}
		}
		if !replaced {
			if err := w.Frame(kind, body); err != nil {
				return // too long for a frame
			}
		}
		if err := w.End(); err != nil {
			t.Fatal(err)
		}
		l, err := loadManual(out.Bytes())
		if err != nil {
			if !errors.Is(err, ErrState) && !strings.Contains(err.Error(), "Clock") {
				t.Errorf("an error that nobody can tell: %v", err)
			}
			return
		}
		for i := range 50 {
			for _, r := range l.rules {
				r.Allow(r.AddrKey(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})))
			}
		}
		setTime(l, l.Now()+time.Minute)
		l.Advance()
		if err := l.Save(&bytes.Buffer{}); err != nil {
			t.Error(err)
		}
	})
}
