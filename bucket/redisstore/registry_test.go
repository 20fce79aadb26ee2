package redisstore

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket/registry"
	"github.com/fastlimit/fastlimit/bucket/registry/registrytest"
	"github.com/fastlimit/fastlimit/internal/testkit/faultproxy"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

// registryOn returns registries of nodes on a server.
func registryOn(t *testing.T, c Config) func() registry.Store {
	t.Helper()
	return func() registry.Store {
		s, err := Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		r := s.Registry("overrides")
		t.Cleanup(func() { _, _ = r.Close(), s.Close(t.Context()) })
		return r
	}
}

// registryACL are the rights that docs/redis.md lists for registries.
func registryACL(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/redis.md")
	rights := regexp.MustCompile("Live overrides [^`]*`[^`]*`[^`]*`([^`]*)`").FindSubmatch(page)
	if err != nil || rights == nil {
		t.Fatal("docs/redis.md does not say what live overrides need", err)
	}
	return strings.Fields(string(rights[1]))
}

// The user has the rights that docs/redis.md lists, and no more.
func TestRegistry(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Do(slices.Concat([]string{"ACL", "SETUSER", "fastlimit", "on", ">secret"}, acl, registryACL(t))...)
	c := Config{Addrs: []string{server.Addr}, Username: "fastlimit", Password: "secret", Timeout: time.Second}
	registrytest.Run(t, registryOn(t, c), func() { server.Do("DEL", "fastlimit:!overrides") })
}

func TestRegistryInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	c := Config{Addrs: cluster.Addrs()[:1], Cluster: true, Timeout: time.Second}
	registrytest.Run(t, registryOn(t, c), func() {
		for _, n := range cluster.Nodes {
			_, _ = n.Try("DEL", "fastlimit:!overrides") // which one owner carries out
		}
	})
}

// Whatever somebody else writes into the hash is skipped and counted, at most so much of it
// is read, and it harms neither reading nor writing.
func TestHostileRegistry(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := registryOn(t, Config{Addrs: []string{server.Addr}, Timeout: time.Minute})()
	key := "fastlimit:!overrides"
	put := func() {
		t.Helper()
		if err := r.Put(t.Context(), "ours", "v", time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	put()
	end := fmt.Sprint(time.Now().Add(time.Hour).UnixMicro())
	for i, field := range []string{"=no numbers", "1", "=1 2", "=x 2 3", "=1 99999999999999999999 far", "=9007199254740993 " + end + " high", "=-1 " + end + " low", "other", "=1e3 " + end + " v"} {
		name, value, _ := strings.Cut(field, " ")
		server.Do("HSET", key, fmt.Sprint(name, i), value)
	}
	server.Do("HSET", key, "=huge", "1 "+end+" "+strings.Repeat("v", 8<<20), "="+strings.Repeat("n", 8<<20), "1 "+end+" v")
	c, err := r.Read(t.Context())
	if err != nil || len(c.Records) != 1 || c.Records[0].Name != "ours" || c.Skipped != 11 {
		t.Fatalf("%+v, %v", c, err)
	}
	for _, version := range []string{"x", "-5", "1e300", "nan", "9007199254740993", strings.Repeat("9", 8<<20)} {
		server.Do("HSET", key, "!version", version, "!epoch", version, "!pruned", version)
		put()
		if m, err := r.Mark(t.Context()); err != nil || m.Version == 0 || m.Version > uint64(time.Now().Add(time.Hour).UnixMicro()) { // after 1970
			t.Errorf("after version %.20s: %+v, %v", version, m, err)
		}
	}
	// A clock that was set back: versions go on above the latest.
	ahead := uint64(time.Now().Add(time.Hour / 2).UnixMicro()) // after 1970
	server.Do("HSET", key, "!version", fmt.Sprint(ahead))
	put()
	if m, err := r.Mark(t.Context()); err != nil || m.Version != ahead+1 {
		t.Errorf("after version %d: %+v, %v", ahead, m, err)
	}
	server.Do("DEL", key)
	server.Do("SET", key, "a text")
	if _, err := r.Mark(t.Context()); err == nil || !strings.Contains(err.Error(), "key prefix") {
		t.Errorf("a key of another type: %v", err)
	}
}

// Whoever answers as Redis may answer too little or too much: that is an error, and once it
// answers as Redis does, all is well.
func TestRegistryOddReplies(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := faultproxy.New(t, server.Addr, 1)
	r := registryOn(t, Config{Addrs: []string{proxy.Addr()}, Timeout: time.Minute})()
	for _, reply := range []string{"*0\r\n", "*1\r\n$1\r\n1\r\n", "*3\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n"} {
		if _, err := r.Mark(t.Context()); err != nil {
			t.Fatal(err)
		}
		proxy.Set(t, faultproxy.Fault{Garbage: []byte(reply)})
		if m, err := r.Mark(t.Context()); !errors.Is(err, errMark) {
			t.Errorf("%q: %+v, %v", reply, m, err)
		}
		if _, err := r.Read(t.Context()); !errors.Is(err, errMark) {
			t.Errorf("%q: %v", reply, err)
		}
		proxy.Set(t, faultproxy.Fault{})
	}
}
