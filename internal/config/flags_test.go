package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestOverride(t *testing.T) {
	t.Parallel()
	fromFile := func() *Config {
		return mustParse(t, "listen: [a:1, {address: 'b:2', deny_status: 400}]\ndeny_status: 403\nadmin: c:3\n"+rule)
	}
	for _, tt := range []struct {
		flags  Flags
		file   bool
		want   string // listeners, admin, rate and burst
		errors string // or the words of the errors
	}{
		{Flags{}, false, "[{127.0.0.1:8080 429}] 127.0.0.1:8081 100/s 200", ""},
		{Flags{}, true, "[{a:1 403} {b:2 400}] c:3 5/s 0", ""},
		{Flags{Listen: ":80"}, true, "[{:80 403}] c:3 5/s 0", ""},
		{Flags{Listen: "127.0.0.1:0", Admin: "127.0.0.1:0"}, false, "[{127.0.0.1:0 429}] 127.0.0.1:0 100/s 200", ""},
		{Flags{Listen: "127.0.0.1:8081", Admin: "127.0.0.1:8080"}, false, "[{127.0.0.1:8081 429}] 127.0.0.1:8080 100/s 200", ""},
		{Flags{Rate: "10/m"}, false, "[{127.0.0.1:8080 429}] 127.0.0.1:8081 10/m 0", ""},
		{Flags{Burst: "5"}, false, "[{127.0.0.1:8080 429}] 127.0.0.1:8081 100/s 5", ""},
		{Flags{Rate: "10/m", Burst: "20"}, false, "[{127.0.0.1:8080 429}] 127.0.0.1:8081 10/m 20", ""},
		{Flags{Rate: "10/m"}, true, "", "--rate and --burst: the file has the rules"},
		{Flags{Burst: "10"}, true, "", "--rate and --burst: the file has the rules"},
		{Flags{Rate: "10"}, false, "", `--rate 10: rate "10": no "/"; write`},
		{Flags{Rate: "100003/s"}, false, "", "--rate 100003/s: rate 100003/s cannot be kept exactly; write 100000/s"},
		{Flags{Burst: "0"}, false, "", "--burst 0: not a whole number above 0"},
		{Flags{Burst: "1e3"}, false, "", "--burst 1e3: not a whole number above 0"},
		{Flags{Rate: "1/d", Burst: "18446744073709551615"}, false, "", "--burst 18446744073709551615: burst 18446744073709551615 at"},
		{Flags{Rate: "65533/366d"}, false, "", "--rate 65533/366d: burst 65533 at"},
		{Flags{Listen: "80"}, true, "", `--listen 80: "80" is not host:port; want`},
		{Flags{Admin: "80"}, true, "", `--admin 80: "80" is not host:port; want`},
		{Flags{Listen: ":8081"}, false, "", "admin 127.0.0.1:8081 is already used by the listener :8081"},
		{Flags{Admin: "a:1"}, true, "", "admin a:1 is already used by the listener a:1"},
		{
			Flags{Upstream: "http://u:secret@x", Redis: "http://:secret@x"},
			false, "",
			"--upstream URL: contains a user or a password; remove it: fastlimit does not log in, it forwards what clients send\n--redis URL: scheme \"http\" is not one of redis, rediss and unix; write redis://host:6379/0",
		},
		{Flags{Listen: "x", Admin: "y", Rate: "z"}, false, "", "--listen x"},
	} {
		c := Default()
		if tt.file {
			c = fromFile()
		}
		before := *c
		err := c.Override(tt.flags, tt.file)
		if tt.errors != "" {
			if err == nil || !strings.Contains(err.Error(), tt.errors) {
				t.Errorf("%+v: got\n%v\nwant\n%s", tt.flags, err, tt.errors)
			}
			if !reflect.DeepEqual(*c, before) {
				t.Errorf("%+v: changed despite the error: %+v", tt.flags, c)
			}
			continue
		}
		limit := c.Policy.Rules[0].Limit
		got := fmt.Sprint(listenersOf(c), " ", c.Server.Admin, " ", limit.Rate, " ", limit.Burst)
		if err != nil || got != tt.want {
			t.Errorf("%+v: got %s, %v; want %s", tt.flags, got, err, tt.want)
		}
	}
	all := Flags{Listen: "x", Admin: "y", Rate: "z", Burst: "-", Redis: "r", Upstream: "u"}
	if err := Default().Override(all, false); len(strings.Split(err.Error(), "\n")) != 6 {
		t.Errorf("not every mistake at once:\n%v", err)
	}
}
