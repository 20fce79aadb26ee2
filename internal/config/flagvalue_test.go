package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/policy"
)

func TestParseKey(t *testing.T) {
	t.Parallel()
	ip, path := policy.KeyPart{Kind: policy.KeyIP}, policy.KeyPart{Kind: policy.KeyPath}
	for _, tt := range []struct {
		flag   string
		parts  []policy.KeyPart
		v4, v6 int
		err    string
	}{
		{flag: "ip", parts: []policy.KeyPart{ip}, v4: 32, v6: 64},
		{flag: "ip/24/48", parts: []policy.KeyPart{ip}, v4: 24, v6: 48},
		{flag: "path, ip/16/32", parts: []policy.KeyPart{path, ip}, v4: 16, v6: 32},
		{flag: "header:x-api-key", parts: []policy.KeyPart{{Kind: policy.KeyHeader, Name: "X-Api-Key"}}, v4: 32, v6: 64},
		{flag: "nose", err: `"nose" is not a key; want a key: ip, ip/24/48`},
		{flag: "ip/24", err: "does not name two prefix lengths"},
		{flag: "ip/0/48", err: "is out of range; want 1 to 32 for IPv4"},
		{flag: "ip,ip", err: `"ip" is a part already; remove it`},
		{flag: "ip,global", err: "global means one bucket for everybody"},
		{flag: "ip,,path", err: "is empty; want a key"},
		{flag: "header:a b,cookie:", err: "\n"}, // both mistakes
		{flag: "cookie:${X}", err: "environment variable X is not set"},
	} {
		spec, err := ParseKey(tt.flag)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%q: %v, want %q", tt.flag, err, tt.err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(spec.Key, tt.parts) || spec.Limit.IPv4Prefix != tt.v4 || spec.Limit.IPv6Prefix != tt.v6 {
			t.Errorf("%q: %+v, %v", tt.flag, spec, err)
		}
	}
}

func TestParseSize(t *testing.T) {
	t.Parallel()
	if n, err := ParseSize("2GiB", 1<<20, 1<<40); err != nil || n != 2<<30 {
		t.Errorf("%d, %v", n, err)
	}
	for flag, want := range map[string]string{"much": `"much" is not a size; write for example 64MiB`, "1KiB": "1KiB is out of range; want 1MiB to 1TiB"} {
		if _, err := ParseSize(flag, 1<<20, 1<<40); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %q", flag, err, want)
		}
	}
}

// A key that is accepted is one that a rule may have.
func FuzzParseKey(f *testing.F) {
	for _, s := range []string{"ip", "ip/24/48,path", "header:X-Api-Key", "cookie:sid", "global,ip", "${X}", "ip/99999999999999999999/1", ",", "header:\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		spec, err := ParseKey(s)
		if err != nil {
			return
		}
		if len(spec.Key) == 0 || len(spec.Key) > maxKeyParts || spec.Limit.IPv4Prefix < 1 || spec.Limit.IPv4Prefix > 32 || spec.Limit.IPv6Prefix < 1 || spec.Limit.IPv6Prefix > 128 {
			t.Fatalf("%q: %+v", s, spec)
		}
		for _, p := range spec.Key {
			if err := policy.CheckKeyPart(p); err != nil {
				t.Fatalf("%q: %v", s, err)
			}
		}
	})
}
