package service

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/rls/count"
	"github.com/fastlimit/fastlimit/internal/rls/descriptor"
	"github.com/fastlimit/fastlimit/internal/rls/stats"
)

// noon is a time on a full day, hour and minute, but not a week, month or year.
const noon = 20_000 * 24 * time.Hour

func newService(t testing.TB, cfg Config, file string) *Service {
	t.Helper()
	counters, err := count.New(1 << 12)
	if err != nil {
		t.Fatal(err)
	}
	s := New(cfg, counters, stats.New(0.8, nil))
	c, _, errs := descriptor.ParseYAML("f", []byte(file))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	limits, errs := descriptor.New([]descriptor.Config{*c}, false)
	if errs != nil {
		t.Fatal(errs)
	}
	s.SetLimits(limits)
	return s
}

// request has a descriptor for each text, whose entries are key=value, apart by blanks.
func request(descriptors ...string) *Request {
	r := &Request{Domain: "d"}
	for _, text := range descriptors {
		var d Descriptor
		for field := range strings.FieldsSeq(text) {
			key, value, _ := strings.Cut(field, "=")
			d.Entries = append(d.Entries, descriptor.Entry{Key: key, Value: value})
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	return r
}

func decide(t testing.TB, s *Service, now time.Duration, r *Request) *Response {
	t.Helper()
	resp, err := s.Decide(now, r)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

const limits = `
domain: d
descriptors:
  - key: two
    rate_limit: {unit: minute, requests_per_unit: 2}
  - key: five
    rate_limit: {unit: day, requests_per_unit: 5, name: five}
  - key: zero
    rate_limit: {unit: week, requests_per_unit: 0}
  - key: most
    rate_limit: {unit: year, requests_per_unit: 4294967295}
  - key: shadow
    shadow_mode: true
    rate_limit: {unit: minute, requests_per_unit: 1}
  - key: quota1
    quota_mode: true
    rate_limit: {unit: minute, requests_per_unit: 1}
    metadata: {who: {one: 1}}
  - key: quota2
    quota_mode: true
    rate_limit: {unit: minute, requests_per_unit: 2}
    metadata: {who: {two: 2, one: 9}, more: yes}
  - key: free
    rate_limit: {unlimited: true}
  - key: other
    rate_limit: {unit: minute, requests_per_unit: 9, replaces: [{name: five}]}
  - key: file
    value: x*
    share_threshold: true
    rate_limit: {unit: minute, requests_per_unit: 1}
`

// TestStatus has every field of the answer.
func TestStatus(t *testing.T) {
	t.Parallel()
	s := newService(t, Config{}, limits)
	r := request("two", "five", "zero", "free", "nothing", "")
	now := noon + 90*time.Second + 999*time.Millisecond
	first := decide(t, s, now, r)
	want := &Response{Over: true, Statuses: []Status{
		{Limit: &Current{2, descriptor.Minute, ""}, Remaining: 1, Reset: 30 * time.Second},
		{Limit: &Current{5, descriptor.Day, "five"}, Remaining: 4, Reset: 24*time.Hour - 90*time.Second},
		{Over: true, Limit: &Current{0, descriptor.Week, ""}, Reset: 6*24*time.Hour - 90*time.Second},
		{Remaining: math.MaxUint32},
		{},
		{},
	}}
	if !reflect.DeepEqual(first, want) {
		t.Errorf("got  %+v\nwant %+v", first, want)
	}
	decide(t, s, now, r)
	if third := decide(t, s, now, r); !third.Statuses[0].Over || third.Statuses[1].Remaining != 2 || third.Statuses[0].Remaining != 0 {
		t.Errorf("the third: %+v", third.Statuses)
	}
	if next := decide(t, s, now+30*time.Second, request("two")); next.Over || next.Statuses[0].Remaining != 1 || next.Statuses[0].Reset != time.Minute {
		t.Errorf("the next window: %+v", next.Statuses)
	}
}

func TestHits(t *testing.T) {
	t.Parallel()
	s := newService(t, Config{}, limits)
	own := func(n uint64) *Request {
		r := request("most")
		r.Hits, r.Descriptors[0].OwnHits = 7, &n
		return r
	}
	for i, step := range []struct {
		r         *Request
		over      bool
		remaining uint32
	}{
		{own(0), false, math.MaxUint32},
		{request("most"), false, math.MaxUint32 - 1},
		{own(math.MaxUint32 - 1), false, 0},
		{own(0), false, 0},
		{request("most"), true, 0},
		{own(0), false, 0}, // the count ends at 2^32-1, which is the limit
		{own(1), true, 0},
		{own(1 << 32), true, 0},
		{own(math.MaxUint64), true, 0}, // upstream gives one back
		{own(1), true, 0},
	} {
		st := decide(t, s, noon, step.r).Statuses[0]
		if st.Over != step.over || st.Remaining != step.remaining {
			t.Errorf("step %d: %+v, want %+v", i, st, step)
		}
	}
	r := request("five", "five")
	r.Hits = 2
	if got := decide(t, s, noon, r); got.Statuses[0].Remaining != 3 || got.Statuses[1].Remaining != 1 {
		t.Errorf("one counter twice: %+v", got.Statuses)
	}
}

func TestOverride(t *testing.T) {
	t.Parallel()
	s := newService(t, Config{}, limits)
	r := request("two", "nothing=here")
	r.Descriptors[0].Override = &Override{1, descriptor.Second}
	r.Descriptors[1].Override = &Override{9, descriptor.Hour}
	for i, over := range []bool{false, true} {
		got := decide(t, s, noon, r)
		if got.Over != over || got.Statuses[0].Limit.Requests != 1 || got.Statuses[1].Remaining != uint32(8-i) {
			t.Errorf("%d: %+v", i, got)
		}
	}
	r.Domain = "unknown"
	if got := decide(t, s, noon, r); got.Over || got.Statuses[0].Limit != nil {
		t.Errorf("an unknown domain: %+v", got)
	}
	for _, bad := range []descriptor.Unit{0, 8} {
		r.Descriptors[0].Override.Unit = bad
		if _, err := s.Decide(noon, r); !errors.Is(err, errUnit) {
			t.Errorf("unit %d: %v", bad, err)
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	s := newService(t, Config{}, limits)
	none := request("two")
	none.Domain = ""
	if _, err := s.Decide(noon, none); !errors.Is(err, errDomain) {
		t.Error(err)
	}
	if _, err := s.Decide(noon, request()); !errors.Is(err, errDescriptors) {
		t.Error(err)
	}
	if _, err := New(Config{}, nil, stats.New(0.8, nil)).Decide(noon, request("two")); !errors.Is(err, ErrNoLimits) {
		t.Error(err)
	}
}

// TestModes are shadow mode and quota mode, of a limit and of all.
func TestModes(t *testing.T) {
	t.Parallel()
	over := func(cfg Config, times int, descriptors ...string) bool {
		s := newService(t, cfg, limits)
		for range times - 1 {
			decide(t, s, noon, request(descriptors...))
		}
		return decide(t, s, noon, request(descriptors...)).Over
	}
	for _, c := range []struct {
		name  string
		cfg   Config
		times int
		what  string
		want  bool
	}{
		{"a limit in shadow mode", Config{}, 9, "shadow", false},
		{"and another over its limit", Config{}, 3, "shadow,two", true},
		{"all in shadow mode", Config{Shadow: true}, 9, "two", false},
		{"one of two quotas over", Config{}, 2, "quota1,quota2", false},
		{"both", Config{}, 3, "quota1,quota2", true},
		{"one quota, over", Config{}, 2, "quota1", true},
		{"both in shadow mode", Config{Shadow: true}, 3, "quota1,quota2", false},
		{"a quota and a limit over", Config{}, 3, "quota2,two,five", true},
		{"a quota over, a limit not", Config{}, 2, "quota1,five", true},
		{"all are quotas, one over", Config{Quota: true}, 3, "two,five", false},
		{"all are quotas, one without limit", Config{Quota: true}, 9, "two,nothing", false},
		{"all are quotas, one unlimited", Config{Quota: true}, 3, "two,free", true},
		{"a limit is replaced", Config{}, 6, "five,other", false},
		{"and not", Config{}, 6, "five", true},
	} {
		if got := over(c.cfg, c.times, strings.Split(c.what, ",")...); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestStopWhenOver: if one is over its limit, only those that are count.
func TestStopWhenOver(t *testing.T) {
	t.Parallel()
	for stop, want := range map[bool]uint32{false: 1, true: 3} {
		s := newService(t, Config{StopWhenOver: stop}, limits)
		for range 4 {
			decide(t, s, noon, request("five", "two"))
		}
		if got := decide(t, s, noon, func() *Request { r := request("five"); r.Descriptors[0].OwnHits = new(uint64); return r }()); got.Statuses[0].Remaining != want {
			t.Errorf("stop %v: %+v, want %d", stop, got.Statuses[0], want)
		}
	}
}

func TestSharedCounter(t *testing.T) {
	t.Parallel()
	s := newService(t, Config{}, limits)
	for i, r := range []*Request{request("file=x1"), request("file=x2")} {
		if got := decide(t, s, noon, r); got.Over != (i == 1) {
			t.Errorf("%d: %+v", i, got)
		}
	}
}

// TestKeysAreFramed: upstream joins keys and values with "_", so that these share a counter.
func TestKeysAreFramed(t *testing.T) {
	t.Parallel()
	s := newService(t, Config{}, "domain: d\ndescriptors: [{key: a_b, rate_limit: &one {unit: day, requests_per_unit: 1}}, {key: a, rate_limit: *one}]")
	if decide(t, s, noon, request("a_b=c")).Over || decide(t, s, noon, request("a=b_c")).Statuses[0].Over {
		t.Error("two descriptors share a counter")
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	cfg := Config{Headers: true, LimitHeader: "L", RemainingHeader: "R", ResetHeader: "S"}
	s := newService(t, cfg, limits)
	for i, want := range []string{"[{L 2} {R 1} {S 60}]", "[{L 2} {R 0} {S 60}]", "[{L 2} {R 0} {S 60}]"} {
		if got := decide(t, s, noon, request("nothing", "free", "five", "two")); fmtHeaders(got) != want {
			t.Errorf("%d: %v", i, got.Headers)
		}
	}
	if got := decide(t, s, noon, request("nothing", "free")); got.Headers != nil {
		t.Errorf("%v", got.Headers)
	}
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	s := newService(t, Config{Metadata: true}, limits)
	r := request("quota1", "quota2", "two=x")
	r.Hits = 1
	r.Descriptors[2].OwnHits, r.Descriptors[2].Override = new(uint64), &Override{3, descriptor.Hour}
	want := map[string]any{
		"domain": "d", "hitsAddend": 1.0,
		"descriptors": []any{
			map[string]any{"entries": []any{"quota1="}},
			map[string]any{"entries": []any{"quota2="}},
			map[string]any{"entries": []any{"two=x"}, "limit": "requests_per_unit:3 unit:HOUR", "hitsAddend": 0.0},
		},
		"metadata": map[string]any{"who": map[string]any{"one": 1.0, "two": 2.0}, "more": true},
	}
	if got := decide(t, s, noon, r); !reflect.DeepEqual(got.Metadata, want) {
		t.Errorf("got  %v\nwant %v", got.Metadata, want)
	}
	delete(want, "hitsAddend") // the second request finds quota1 exceeded, and what was configured as it was
	want["metadata"] = map[string]any{"who": map[string]any{"one": 9.0, "two": 2.0}, "more": true}
	r.Hits = 0
	if got := decide(t, s, noon, r); !reflect.DeepEqual(got.Metadata, want) {
		t.Errorf("got  %v\nwant %v", got.Metadata, want)
	}
	alone := map[string]any{"who": map[string]any{"one": 1.0}}
	if got := decide(t, s, noon+time.Hour, request("quota1")); !reflect.DeepEqual(got.Metadata["metadata"], alone) {
		t.Errorf("got  %v\nwant %v", got.Metadata["metadata"], alone)
	}
}

func fmtHeaders(r *Response) string {
	parts := make([]string, len(r.Headers))
	for i, h := range r.Headers {
		parts[i] = "{" + h.Key + " " + h.Value + "}"
	}
	return "[" + strings.Join(parts, " ") + "]"
}
