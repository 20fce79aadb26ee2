package replay

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

func policyOf(t *testing.T, s policy.Settings) *policy.Engine {
	t.Helper()
	lim, err := fastlimit.New(fastlimit.Config{Rules: s.Limits(), Memory: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	e, err := policy.New(lim, s)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Requests come in the order of their times, with the fields that the rules look at.
func TestRead(t *testing.T) {
	t.Parallel()
	const log = `192.0.2.1 - - [17/May/2015:10:05:05 +0000] "GET /c?q HTTP/1.1" 200 1 "-" "third"
2001:db8::1 - - [17/May/2015:10:05:03 +0000] "POST /a/./b HTTP/1.1" 200 1 "-" "first"
what is this?
192.0.2.1 - - [17/May/2015:10:05:04 +0000] "GET / HTTP/1.1" 200 1 "-" "-"
`
	s := policy.Settings{Rules: []policy.RuleSpec{
		rule("agent", "1/s", 1, policy.KeyPart{Kind: policy.KeyHeader, Name: "User-Agent"}),
		rule("path", "1/s", 1, policy.KeyPart{Kind: policy.KeyPath}),
	}}
	e := policyOf(t, s)
	var got []string
	reading, err := Read(t.Context(), []Log{{Name: "a.log", Reader: strings.NewReader(log)}}, e, s.Rules, ReadConfig{}, func(at int64, r *policy.Request) error {
		got = append(got, fmt.Sprintf("%d %v %s %s %q", at, r.Client, r.Method, r.Path, r.Fields.Header("User-Agent")))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`1431857103000000 2001:db8::1  /a/b ["first"]`,
		`1431857104000000 192.0.2.1  / []`,
		`1431857105000000 192.0.2.1  /c ["third"]`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if reading.Requests != 3 || reading.Skipped != 1 || reading.First != "2015-05-17T10:05:03Z" || reading.Last != "2015-05-17T10:05:05Z" || reading.SkippedLines[0].Line != 3 {
		t.Errorf("%+v", reading)
	}
	stop := errors.New("enough")
	if _, err := Read(t.Context(), []Log{{Reader: strings.NewReader(log)}}, e, s.Rules, ReadConfig{}, func(int64, *policy.Request) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("the error of each is lost: %v", err)
	}
	if _, err := Read(t.Context(), nil, e, s.Rules, ReadConfig{Fields: FieldMap{"tim": "x"}}, nil); err == nil {
		t.Error("an unknown field is accepted")
	}
	_, err = Read(t.Context(), []Log{{Name: "x.zst", Reader: strings.NewReader("\x28\xb5\x2f\xfd")}}, e, s.Rules, ReadConfig{Command: "suggest"}, nil)
	if err == nil || !strings.Contains(err.Error(), "zstdcat LOG | fastlimit suggest -") {
		t.Errorf("got %v", err)
	}
}
