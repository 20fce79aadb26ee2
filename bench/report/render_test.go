package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func sample() Report {
	return Report{
		Environment: Environment{
			CPU: "Test <CPU> & more", Cores: 2, Kernel: "Linux 6", Go: "go1.26", Commit: "abc123",
			Flags: []string{"bench", "--html", "x"}, Versions: map[string]string{"nginx": "1.22.1"},
		},
		Results: []Result{
			{Group: "local", Workload: "zipf-1.1", Limiter: "fastlimit", Setup: "defaults", Cores: 1, NsPerOp: new(50.0), AllocsPerOp: new(0.0)},
			{Group: "local", Workload: "zipf-1.1", Limiter: "fastlimit", Setup: "defaults", Cores: 2, NsPerOp: new(25.0)},
			{Group: "local", Workload: "zipf-1.1", Limiter: "other", Cores: 1, NsPerOp: new(300.0)},
			{Group: "local", Workload: "zipf-1.1", Limiter: "middling", Cores: 1, NsPerOp: new(100.0)},
			{Group: "local", Workload: "zipf-1.1", Limiter: Baseline, Cores: 1, NsPerOp: new(3.0)},
			{Group: "memory", Workload: "flood", Limiter: "other", Keys: 1e7, RSSBytes: new(int64(3 << 30)), HitterAdmitted: new(9.5), Error: "grew past <8> GiB"},
			{
				Group: "http", Workload: "flood", Limiter: "fastlimit", LatencyMicros: map[string]float64{"p50": 100, "p99.9": 2345},
				Series: map[string][][2]float64{"shed": {{0.5, 0}, {1.5, 0.7}}, "latency_us": {{0, 10}, {50, 100}, {99.9, 2345}}},
			},
		},
	}
}

func render(t *testing.T, reports ...Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, reports...); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestHTML(t *testing.T) {
	t.Parallel()
	page := render(t, sample())
	for _, want := range []string{
		"Test &lt;CPU&gt; &amp; more", "Linux 6", "go1.26", "abc123", "bench --html x", "nginx 1.22.1",
		"Throughput against cores: zipf-1.1", "Latency by percentile: flood", "Shed share over time: flood", "Error against memory",
		"decisions per second", "latency, µs", "time, s", "resident memory, MiB", "percentile", // axes with units
		"grew past &lt;8&gt; GiB", `name="viewport"`, "prefers-color-scheme: dark", ">2345<",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if external := regexp.MustCompile(`(?i)(src|href)\s*=|url\(|@import|<script`).FindString(page); external != "" {
		t.Errorf("the page is not self-contained: it has %q", external)
	}
}

// The best of each size is marked, the bare harness left aside.
func TestHTMLMarksTheBest(t *testing.T) {
	t.Parallel()
	page := render(t, sample())
	if !strings.Contains(page, `<td class="best">50</td>`) {
		t.Error("50 ns is the best on 1 core and not marked")
	}
	for _, v := range []string{"300", "100", "3", "25"} { // 25 is alone on 2 cores
		if strings.Contains(page, `<td class="best">`+v+`</td>`) {
			t.Errorf("%s ns is marked as best", v)
		}
	}
}

// Everything drawn lies within the drawing, whatever the values.
func TestChartsStayInside(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := &chart{Title: "t", X: axis{Label: "x", log: rapid.Bool().Draw(t, "xlog")}, Y: axis{Label: "y", log: rapid.Bool().Draw(t, "ylog")}}
		for i := range rapid.IntRange(0, 4).Draw(t, "series") {
			s := series{Name: "s", color: i}
			for range rapid.IntRange(0, 6).Draw(t, "points") {
				v := rapid.OneOf(rapid.Float64Range(0, 1e12), rapid.Just(0.0), rapid.Just(1.0), rapid.Just(math.NaN()), rapid.Just(math.Inf(1)))
				s.points = append(s.points, [2]float64{v.Draw(t, "x"), v.Draw(t, "y")})
			}
			c.Series = append(c.Series, s)
		}
		drawn, err := c.SVG()
		if err != nil {
			t.Fatal(err)
		}
		svg := string(drawn)
		dec := xml.NewDecoder(strings.NewReader(svg))
		for {
			token, err := dec.Token()
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("not well-formed: %v\n%s", err, svg)
			}
			start, ok := token.(xml.StartElement)
			if !ok {
				continue
			}
			for _, a := range start.Attr {
				var x, y float64
				if n, _ := fmt.Sscanf(a.Value, "translate(%f %f)", &x, &y); n == 2 && !(x >= 0 && x <= chartWidth && y >= 0 && y <= chartHeight) {
					t.Fatalf("a point at %v, %v\n%s", x, y, svg)
				}
				limit := map[string]float64{"x": chartWidth, "cx": chartWidth, "y": chartHeight, "cy": chartHeight}[a.Name.Local]
				if v, err := strconv.ParseFloat(a.Value, 64); limit > 0 && (err != nil || !(v >= 0 && v <= limit)) {
					t.Fatalf("%s of %s is %s: want 0 to %v\n%s", a.Name.Local, start.Name.Local, a.Value, limit, svg)
				}
			}
		}
		if n := max(len(c.X.ticks), len(c.Y.ticks)); n > 2*maxTicks+1 || min(len(c.X.ticks), len(c.Y.ticks)) < 2 {
			t.Fatalf("%d and %d ticks", len(c.X.ticks), len(c.Y.ticks))
		}
	})
}

// Every colour that a chart may use is in both styles of the page.
func TestPalette(t *testing.T) {
	t.Parallel()
	for i := range palette {
		for want, n := range map[string]int{
			fmt.Sprintf("--c%d: #", i): 2, fmt.Sprintf(".point.c%d{", i): 1, fmt.Sprintf(".line.c%d{", i): 1,
		} {
			if got := strings.Count(pageSource, want); got != n {
				t.Errorf("%d times %q, want %d", got, want, n)
			}
		}
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	later := Report{Results: []Result{
		{Group: "local", Workload: "zipf-1.1", Limiter: "fastlimit", Cores: 1, NsPerOp: new(40.0)},
		{Group: "local", Workload: "zipf-1.1", Limiter: "new", Cores: 1, NsPerOp: new(60.0)},
	}}
	got := Merge(sample(), later)
	if len(got) != len(sample().Results)+1 {
		t.Fatalf("%d results, want one more than %d", len(got), len(sample().Results))
	}
	if *got[0].NsPerOp != 40 || *got[1].NsPerOp != 25 || got[len(got)-1].Limiter != "new" {
		t.Errorf("merged: %v ns, %v ns, last %s: want 40, 25, new", *got[0].NsPerOp, *got[1].NsPerOp, got[len(got)-1].Limiter)
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	r := sample()
	if err := Text(&b, &r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Test <CPU> & more, 2 cores, Linux 6, go1.26, commit abc123", "time, ns/decision", "grew past <8> GiB", "RSS, MiB", "3072"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "Redis") {
		t.Errorf("a column without figures:\n%s", b.String())
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		got, want string
	}{
		{si(0), "0"},
		{si(999), "999"},
		{si(1000), "1 k"},
		{si(1234567), "1.2 M"},
		{si(999_999), "1 M"},
		{si(2e9), "2 G"},
		{short(0.0033), "0.0033"},
		{short(0.25), "0.25"},
		{short(12.34), "12.3"},
		{short(123.4), "123"},
		{short(7), "7"},
		{short(1e6), "1 M"},
		{percent(0), "0"},
		{percent(0.5), "50"},
		{percent(0.98765), "98.77"},
		{percent(0.0000123), "0.0012"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestLogTicks(t *testing.T) {
	t.Parallel()
	a := axis{log: true}
	a.fit([]float64{25, 210, 0, math.NaN()})
	var got []string
	for _, tick := range a.ticks {
		got = append(got, tick.text)
	}
	if want := "20 50 100 200 500"; strings.Join(got, " ") != want {
		t.Errorf("ticks %v, want %v", got, want)
	}
}
