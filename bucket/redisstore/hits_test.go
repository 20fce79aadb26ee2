package redisstore

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/fastlimit/fastlimit/bucket/storetest"
	"github.com/fastlimit/fastlimit/bucket/storetest/trial"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

func mustOpenHits(t *testing.T, c Config, jitter time.Duration) *remote.Store {
	t.Helper()
	s, err := OpenHits(t.Context(), c, jitter)
	if err != nil {
		t.Fatal(err)
	}
	trial.CloseLater(t, s)
	return s
}

// hits are n more at a key of windows of an hour.
func hits(t testing.TB, key string, n uint64) bucket.Op {
	t.Helper()
	hour, err := bucket.NewWindow(1, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return bucket.Op{Kind: bucket.Take, Algorithm: bucket.FixedWindow, Key: key, Shape: hour, Cost: n, Count: 1}
}

// TestHits: other programs' numbers are counted on, by the same commands, and expire.
func TestHits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := mustOpenHits(t, patient(server.Addr), 10*time.Minute)
	server.Do("SET", "theirs", "41")
	server.Do("SET", "negative", "-5")
	server.Do("SET", "full", strconv.Itoa(math.MaxInt64))
	server.Do("SET", "text", "x")
	server.Do("LPUSH", "list", "1")
	for i, step := range []struct {
		op   bucket.Op
		want uint64
		err  *remote.Class
	}{
		{hits(t, "mine", 2), 2, nil},
		{hits(t, "mine", 0), 2, nil},
		{hits(t, "mine", 3), 5, nil},
		{hits(t, "theirs", 1), 42, nil},
		{hits(t, "negative", 1), 0, classCorrupt},
		{hits(t, "negative", 9), 5, nil},
		{hits(t, "mine", 100_000), 100_005, nil},
		{hits(t, "mine", 1<<32), 1<<32 + 100_005, nil},
		{hits(t, "full", 1), math.MaxInt64, nil},
		{hits(t, "full", 0), math.MaxInt64, nil},
		{hits(t, "list", 1), 0, classWrongType},
		{hits(t, "text", 1), 0, classOther},
	} {
		got, err := storetest.Do(s, step.op)
		var e *remote.Error
		errors.As(err, &e)
		if got.Level != step.want || (e == nil) != (step.err == nil) || e != nil && e.Class != step.err {
			t.Errorf("step %d: %+v, %v", i, got, err)
		}
	}
	if got := server.Do("GET", "mine"); got != "4295067301" {
		t.Errorf("Redis has %q", got)
	}
	if ttl, err := strconv.Atoi(server.Do("TTL", "mine")); err != nil || ttl < 3590 || ttl >= 3600+600 {
		t.Errorf("it expires in %d s", ttl)
	}
	for _, bad := range []bucket.Op{
		{Kind: bucket.Refund, Algorithm: bucket.FixedWindow, Key: "mine"}, {Kind: bucket.Take, Algorithm: bucket.LeakyBucket, Key: "mine"},
	} {
		if _, err := storetest.Do(s, bad); !errors.Is(err, bucket.ErrAlgorithm) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if s.Runs(bucket.LeakyBucket) || !s.Runs(bucket.FixedWindow) {
		t.Error("it runs other algorithms than it says")
	}
}

// TestHitsAreEachCounted, by many at a time, with one answer for each.
func TestHitsAreEachCounted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := mustOpenHits(t, patient(server.Addr), 0)
	var mu sync.Mutex
	var counts []uint64
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 200 {
				r, err := storetest.Do(s, hits(t, "hot", 1))
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				counts = append(counts, r.Level)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	slices.Sort(counts)
	for i, n := range counts {
		if n != uint64(i+1) {
			t.Fatalf("count %d is %d", i+1, n)
		}
	}
	if ttl := server.Do("TTL", "hot"); ttl != "3600" && ttl != "3599" {
		t.Errorf("it expires in %s s", ttl)
	}
}

// TestHitsNeedRedis: a wrong password is an error, no Redis is a store that waits for one.
func TestHitsNeedRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Do("CONFIG", "SET", "requirepass", "right")
	wrong := patient(server.Addr)
	wrong.Password = "wrong"
	if s, err := OpenHits(t.Context(), wrong, 0); s != nil || err == nil {
		t.Errorf("%v, %v", s, err)
	}
	server.Kill()
	s, err := OpenHits(t.Context(), patient(server.Addr), 0)
	if s == nil || !errors.Is(err, bucket.ErrAway) {
		t.Fatalf("%v, %v", s, err)
	}
	trial.CloseLater(t, s)
	if _, err := storetest.Do(s, hits(t, "k", 1)); !errors.Is(err, bucket.ErrAway) {
		t.Error(err)
	}
	server.Run()
	redistest.Eventually(t, "it counts again", func() bool {
		_, err := storetest.Do(s, hits(t, "k", 1))
		return err == nil
	})
}

// TestHitsInACluster follow their keys to where these are moved, and count once.
func TestHitsInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	c := patient("")
	c.URL, c.Addrs, c.Cluster = "", cluster.Addrs(), true
	s := mustOpenHits(t, c, 0)
	want := func(n uint64) {
		t.Helper()
		for i := range 20 {
			if r, err := storetest.Do(s, hits(t, fmt.Sprint("key", i), 1)); err != nil || r.Level != n {
				t.Fatalf("key %d: %+v, %v: want %d", i, r, err, n)
			}
		}
	}
	want(1)
	slot := slotOf(t, cluster, "key7")
	from := cluster.Owner(slot)
	moveSlot(t, cluster, slot, from, (from+1)%3, func() { want(2) })
	want(3)
}
