package delta

import (
	"bytes"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// The golden packet is the format: a change of it needs another version.
func TestGoldenBans(t *testing.T) {
	t.Parallel()
	w := newBanWriter(minPacketSize, minPacketSize)
	h := header{cluster: 0x0102030405060708, incarnation: 0x1112131415161718, seq: 300, node: []byte("n1")}
	w.begin(&h, 2*second, minPacketSize)
	id := banID{0x2122232425262728, sketch.Digest{Pos: 0x3132333435363738, ID: 7}}
	w.write(&banEntry{banID: id, serial: 1, left: 300*time.Millisecond + 999999, times: 2, name: []byte("c")})
	w.write(&banEntry{banID: id, serial: 128})
	want := "flb\x01" + "\x08\x07\x06\x05\x04\x03\x02\x01" + "\x18\x17\x16\x15\x14\x13\x12\x11" + "\xac\x02" + "\x02n1" + "\xd0\x0f" +
		"\x28\x27\x26\x25\x24\x23\x22\x21" + "\x01" + "\xac\x02" + "\x02" + "\x38\x37\x36\x35\x34\x33\x32\x31" + "\x07\x00\x00\x00\x00\x00\x00\x00" + "\x01c" +
		"\x28\x27\x26\x25\x24\x23\x22\x21" + "\x80\x01" + "\x00" + "\x00" + "\x38\x37\x36\x35\x34\x33\x32\x31" + "\x07\x00\x00\x00\x00\x00\x00\x00" + "\x00"
	if got := w.end(false); len(got) != 1 || string(got[0]) != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// Whatever is wrong with a packet of bans has its reason, and nothing of it is applied.
func TestRejectedBans(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(p []byte) []byte
		want   Reason
	}{
		"other version": {func(p []byte) []byte { p[3]++; return p }, Version},
		"other cluster": {func(p []byte) []byte { p[4]++; return p }, Cluster},
		"incarnation":   {func(p []byte) []byte { p[12]++; return p }, StaleIncarnation},
		"cut":           {func(p []byte) []byte { return p[:len(p)-1] }, Malformed},
		"trailing byte": {func(p []byte) []byte { return append(p, 0) }, Malformed},
		"name too long": {func(p []byte) []byte {
			return append(appendBan(p, &banEntry{serial: 1})[:len(p)+8+1+1+1+16], append([]byte{maxName + 1}, make([]byte, maxName+1)...)...)
		}, Malformed},
		"serial 0":  {func(p []byte) []byte { return appendBan(p, &banEntry{}) }, Malformed},
		"in counts": {func(p []byte) []byte { p[2] = 'd'; p[3] = version; return p }, Malformed},
	} {
		a, b := newBanNode(t, "a", nil), newBanNode(t, "b", nil)
		known(t, a, b)
		a.ban(1, minute, 10*second)
		packets := a.tells(10 * second)
		r := b.Receive(tt.change(packets[0]), 10*second)
		if r == nil || r.Reason != tt.want || b.table.calls != 0 {
			t.Errorf("%s: %+v, %d calls", name, r, b.table.calls)
		}
	}
}

// FuzzBans: whatever arrives, nothing panics, a packet that is refused applies nothing, one
// that comes twice applies nothing more, and no ban exceeds what the rule allows.
func FuzzBans(f *testing.F) {
	a := newBanNode(f, "a", nil)
	known(f, a)
	for client := range uint64(60) {
		a.ban(client, time.Duration(client)*minute, 10*second)
		if client%3 == 0 {
			a.unban(client)
		}
	}
	for _, p := range a.tells(10 * second) {
		f.Add(p)
	}
	f.Add(a.tells(11 * second)[0])
	f.Fuzz(func(t *testing.T, p []byte) {
		b, a := newBanNode(t, "b", nil), newBanNode(t, "a", nil)
		known(t, a, b)
		kept := bytes.Clone(p)
		err := b.Receive(p, 10*second)
		calls := b.table.calls
		if !bytes.Equal(p, kept) {
			t.Error("the packet was changed")
		}
		if err != nil && calls > 0 {
			t.Errorf("%v, but %d bans", err, calls)
		}
		if again := b.Receive(p, 10*second); (again == nil) != (err == nil) || b.table.calls != calls {
			t.Errorf("first %v and %d calls, then %v and %d", err, calls, again, b.table.calls)
		}
		for _, ban := range b.table.bans {
			if ban.Left <= 0 || ban.Left > time.Hour || ban.Times < 1 || len(ban.Name) > maxName {
				t.Errorf("%+v", ban)
			}
		}
		b.TellBans(12 * second)
		b.Stats()
	})
}

// FuzzBansRoundTrip: what is written is read.
func FuzzBansRoundTrip(f *testing.F) {
	f.Add(uint64(1), uint64(1), int64(time.Hour), uint64(3), uint64(9), []byte("4abcd"), uint8(90))
	f.Fuzz(func(t *testing.T, identity, serial uint64, left int64, times, pos uint64, name []byte, n uint8) {
		want := banEntry{
			banID: banID{identity, sketch.Digest{Pos: pos, ID: serial}}, serial: max(serial, 1),
			left: time.Duration(max(left, 0)).Truncate(time.Millisecond), times: times % maxTimes, name: name[:min(len(name), maxName)],
		}
		w := newBanWriter(minPacketSize, 64*minPacketSize)
		w.begin(&header{node: []byte("node")}, time.Duration(max(left, 0)), 64*minPacketSize)
		for range n {
			w.write(&want)
		}
		read := 0
		for _, p := range w.end(false) {
			r := reader{b: p[len(banMagic)+1:]}
			r.header()
			if len(p) > minPacketSize || !banPacketWellFormed(r.b) || r.duration() != min(want.left, maxBanTime*time.Millisecond) {
				t.Fatalf("%x", p)
			}
			for ; r.more(); read++ {
				if got := r.ban(); got.banID != want.banID || got.serial != want.serial || got.left != want.left || got.times != want.times || !bytes.Equal(got.name, want.name) {
					t.Fatalf("%+v, want %+v", got, want)
				}
			}
		}
		if read != int(n) {
			t.Errorf("%d entries written, %d read", n, read)
		}
	})
}
