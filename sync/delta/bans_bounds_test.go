package delta

import (
	"slices"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// What is not to be applied is counted once, whatever its repetitions.
func TestRefusedBans(t *testing.T) {
	t.Parallel()
	for reason, change := range map[BanReason]func(*Config){
		bansOff:  func(c *Config) { c.AcceptBans = false },
		bansRule: func(c *Config) { c.Banners[0].(*banTable).most = 0 },
		bansFull: func(c *Config) { c.maxBans = 4 },
	} {
		a, b := newBanNode(t, "a", nil), newBanNode(t, "b", change)
		known(t, a, b)
		for client := range uint64(5) {
			a.ban(client, minute, 10*second)
		}
		packets := a.tells(10 * second)
		b.hears(t, packets, 10*second)
		want := BanStats{Received: 5}
		if want.Refused[reason] = 5; reason == bansFull {
			want.Received, want.Applied, want.Refused[reason] = 4, 4, 1
		} else {
			b.hears(t, packets, 10*second)
		}
		if got := b.Stats().Bans; got != want {
			t.Errorf("%v: %+v, want %+v", reason, got, want)
		}
	}
	// Of a rule that is another one here, nothing is known.
	a := newBanNode(t, "a", func(c *Config) { c.Banners[0].(*banTable).name = "other" })
	b := newBanNode(t, "b", nil)
	known(t, a, b)
	a.ban(1, minute, 10*second)
	b.hears(t, a.tells(10*second), 10*second)
	if st := b.Stats(); st.Bans != (BanStats{}) || st.Rejected[UnknownRule] != 1 || b.table.calls != 0 {
		t.Errorf("%+v", st)
	}
}

// A refused ban is applied when its repetition finds the rule willing.
func TestRefusedBanComesAgain(t *testing.T) {
	t.Parallel()
	a, b := newBanNode(t, "a", nil), newBanNode(t, "b", nil)
	known(t, a, b)
	b.table.most = 0
	a.ban(1, minute, 10*second)
	b.hears(t, a.tells(10*second), 10*second)
	b.table.most = 20 * second
	b.hears(t, a.tells(11*second), 11*second)
	if got := b.table.bans[testDigest(1)].Left; got != 20*second {
		t.Errorf("%v left", got)
	}
}

// A flood of bans of one node is applied bit by bit, and comes in full in the end.
func TestBansAreCapped(t *testing.T) {
	t.Parallel()
	const bans = 3 * believedBans
	a, b := newBanNode(t, "a", func(c *Config) { c.MaxBytes = maxMaxBytes }), newBanNode(t, "b", nil)
	known(t, a, b)
	for client := range uint64(bans) {
		a.ban(client, time.Hour, 10*second)
	}
	for i := range 3 {
		now := 10*second + time.Duration(i)*2*second
		b.hears(t, a.tells(now), now)
		if got := b.Stats().Bans; got.Applied != uint64(i+1)*believedBans || got.Refused[bansCap] == 0 {
			t.Errorf("%+v after %d s", got, 2*i)
		}
	}
}

// Bans take a quarter of a tick at most, new ones first, and none waits for ever.
func TestBanBudget(t *testing.T) {
	t.Parallel()
	const bans = 500
	a, b := newBanNode(t, "a", nil), newBanNode(t, "b", nil)
	known(t, a, b)
	for client := range uint64(bans) {
		a.ban(client, time.Hour, 10*second)
	}
	now := 10 * second
	for ; b.Stats().Bans.Applied < bans; now += 100 * time.Millisecond {
		packets := a.tells(now)
		if size := len(slices.Concat(packets...)); size > DefaultMaxBytes/4 || size < DefaultMaxBytes/6 {
			t.Fatalf("%d bytes", size)
		}
		b.hears(t, packets, now)
		if now > 20*second {
			t.Fatal("not all were told")
		}
	}
	if now > 11*second {
		t.Errorf("it took %v", now-10*second)
	}
	for range 100 { // repetitions are far behind by now
		a.tells(now)
	}
	a.ban(bans, minute, now)
	b.hears(t, a.tells(now), now)
	if b.Stats().Bans.Applied != bans+1 {
		t.Error("a new ban waited for repetitions")
	}
	// A node that comes now is told all of them.
	c := newBanNode(t, "c", nil)
	c.Join("a", 1, now)
	for end := now + settled + repeatEvery + 2*second; now < end; now += 100 * time.Millisecond {
		c.hears(t, a.tells(now), now)
	}
	if got := c.Stats().Bans.Applied; got != bans+1 {
		t.Errorf("one who comes late has %d bans", got)
	}
}

// Counts and bans together stay within the bytes of a tick, and both are told.
func TestBansAndCountsShare(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*Config){small, nil} {
		table := &banTable{name: "bans", most: time.Hour, bans: map[sketch.Digest]Ban{}}
		n := newTestNode(t, "a", 4096, func(c *Config) {
			if c.Banners = []Banner{table}; change != nil {
				change(c)
			}
		})
		a := &banNode{n.State, table}
		for client := range uint64(4000) {
			n.rule.hit(client, 100)
			n.rule.hit(client, 100)
			a.ban(client, time.Hour, 0)
		}
		for now := time.Duration(0); now < second; now += 100 * time.Millisecond {
			bans, counts := 0, 0
			for _, p := range a.TellBans(now) {
				bans += len(p)
			}
			for _, p := range a.Tick(now) {
				counts += len(p)
			}
			most := a.config.MaxBytes
			if bans+counts > most || bans+counts < most*3/4 || bans < most/6 || counts < most/3 {
				t.Fatalf("%d bytes of bans and %d of counts, want %d in all", bans, counts, most)
			}
		}
	}
}

// Repetitions reach all bans, even where they cannot be told as often as they should.
func TestRepetitionsReachAll(t *testing.T) {
	t.Parallel()
	const bans = 2000
	a, b := newBanNode(t, "a", small), newBanNode(t, "b", nil)
	known(t, a)
	for client := range uint64(bans) {
		a.ban(client, time.Hour, 10*second)
	}
	now := 10 * second
	for ; now < 5*minute; now += 100 * time.Millisecond { // until all have been told to nobody
		a.tells(now)
	}
	b.Join("a", 1, now)
	for ; b.Stats().Bans.Applied < bans && now < 10*minute; now += 100 * time.Millisecond {
		b.hears(t, a.tells(now), now)
	}
	if got := b.Stats().Bans.Applied; got < bans || now < 5*minute+15*second {
		t.Errorf("%d of %d by %v", got, bans, now)
	}
}

// A node remembers and tells so many bans, forgets those that have ended, and says what it
// could not tell.
func TestBansAreBounded(t *testing.T) {
	t.Parallel()
	few := func(c *Config) { c.maxBans = 100 }
	a, b := newBanNode(t, "a", few), newBanNode(t, "b", few)
	known(t, a, b)
	now := 10 * second
	for round := range uint64(5) {
		for client := range uint64(150) {
			a.ban(round<<32|client, 5*second, now)
		}
		for end := now + 10*second; now < end; now += 100 * time.Millisecond {
			b.hears(t, a.tells(now), now)
			if len(a.State.bans.list) > 100 || len(b.mirrors["a"].claims.known) > 100 {
				t.Fatal("unbounded")
			}
		}
	}
	if len(a.State.bans.list) != 0 || len(a.State.bans.byID) != 0 {
		t.Errorf("%d bans that have ended", len(a.State.bans.list))
	}
	if got := a.Stats().Bans; got.Sent != 500 || got.Refused[bansUntold] != 250 {
		t.Errorf("%+v", got)
	}
	if got := b.Stats().Bans; got.Applied != 500 {
		t.Errorf("%+v", got)
	}
}

// A node without rules that ban says nothing of bans and skips what it hears.
func TestNoBanners(t *testing.T) {
	t.Parallel()
	none := func(c *Config) { c.Banners = nil }
	a, b := newBanNode(t, "a", nil), newBanNode(t, "b", none)
	known(t, a, b)
	a.ban(1, minute, 10*second)
	b.hears(t, a.tells(10*second), 10*second)
	b.ban(1, minute, 10*second)
	if packets := b.TellBans(11 * second); packets != nil || b.table.calls != 0 {
		t.Errorf("%q, %d calls", packets, b.table.calls)
	}
}
