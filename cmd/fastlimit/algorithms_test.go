package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// algorithms are those that the binary's schema names, so that a new one is tested
// as soon as files may have it.
func algorithms(t *testing.T) []string {
	t.Helper()
	code, stdout, stderr := command(t, nil, "schema")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	var schema any
	if err := json.Unmarshal([]byte(stdout), &schema); err != nil {
		t.Fatal(err)
	}
	names := enumOf(schema, "algorithm")
	if len(names) < 5 {
		t.Fatalf("the schema has the algorithms %q", names)
	}
	return names
}

// enumOf finds the first property of that name which has a list of values.
func enumOf(schema any, property string) []string {
	switch s := schema.(type) {
	case []any:
		for _, v := range s {
			if names := enumOf(v, property); names != nil {
				return names
			}
		}
	case map[string]any:
		text, _ := json.Marshal(s[property]) // it was JSON
		var found struct{ AnyOf []struct{ Enum []string } }
		if json.Unmarshal(text, &found) == nil && len(found.AnyOf) > 0 && found.AnyOf[0].Enum != nil {
			return found.AnyOf[0].Enum
		}
		for _, v := range s {
			if names := enumOf(v, property); names != nil {
				return names
			}
		}
	}
	return nil
}

// ruleOf is a strict rule with the algorithm, for the path of its name.
func ruleOf(algorithm, rate string) string {
	return fmt.Sprintf("  - {name: %s, rate: %s, strict: true, algorithm: %[1]s, match: {path: /%[1]s}}\n", algorithm, rate)
}

// Twice the limit arrives just before a window of Unix time ends, and twice the limit
// just after. A fixed window admits all of its number on either side, so twice that
// within a moment. A sliding log admits its number in any period, and so nothing after
// the edge. Every other algorithm admits its number and what the rate allows in the
// time between the first request and the last answer.
//
// What is judged does not depend on how fast the machine is. Server and test read the same
// wall clock, so a request that is sent and answered between two readings of it is judged
// between them. A round counts if these readings show that the first burst ended before the
// edge, and the second began after it and ended soon enough. Otherwise another round follows,
// with a server of its own and periods of twice the length. The bound of the others is
// computed from the time that has really passed.
func TestBurstOverTheEdgeOfAWindow(t *testing.T) {
	t.Parallel()
	names := algorithms(t)
	for period := 2 * time.Second; period <= 16*time.Second; period *= 2 {
		if overTheEdge(t, names, period) {
			return
		}
		t.Logf("periods of %v are too short for this machine", period)
	}
	t.Fatal("no round lay around an edge")
}

const (
	edgeLimit = 20
	// edgeMargin is what the server's reading of the clock may differ from the
	// test's: it reads the wall clock once a second and counts on by the
	// monotonic clock. The two run alike unless somebody sets the clock, which
	// the round notices.
	edgeMargin = 20 * time.Millisecond
)

// edgeBurst is what became of one burst of twice the limit, by algorithm.
type edgeBurst struct {
	begin, end time.Time // before the first request and after the last answer
	admitted   map[string]int
}

// overTheEdge sends both bursts for each algorithm and judges them. It is false, and
// nothing was judged, if they did not lie around an edge.
func overTheEdge(t *testing.T, names []string, period time.Duration) bool {
	t.Helper()
	var file strings.Builder
	file.WriteString("rules:\n")
	for _, name := range names {
		file.WriteString(ruleOf(name, fmt.Sprintf("%d/%v", edgeLimit, period)))
	}
	p := serve(t, "-c", writeFile(t, "fastlimit.yaml", file.String()))

	seconds := int64(period / time.Second)
	edge := time.Unix((time.Now().Unix()/seconds+1)*seconds, 0)
	if time.Until(edge) < period/4 {
		edge = edge.Add(period)
	}
	sleepUntil(edge.Add(-period / 4))
	first := sendBurst(t, p, names)
	sleepUntil(edge.Add(edgeMargin))
	second := sendBurst(t, p, names)

	elapsed := second.end.Sub(first.begin) // by the monotonic clock
	stepped := (second.end.Round(0).Sub(first.begin.Round(0)) - elapsed).Abs() > edgeMargin/2
	if stepped || elapsed > period/2 || first.begin.Round(0).Before(edge.Add(edgeMargin-period)) ||
		first.end.Round(0).After(edge.Add(-edgeMargin)) || second.begin.Round(0).Before(edge.Add(edgeMargin)) {
		return false
	}
	for _, name := range names {
		before, after := first.admitted[name], second.admitted[name]
		t.Logf("%s: %d before the edge, %d after it, within %v", name, before, after, elapsed)
		most := edgeLimit + int(edgeLimit*(elapsed+edgeMargin)/period) // a rate's worth, at most half of the limit
		switch name {
		case "fixed_window":
			if before != edgeLimit || after != edgeLimit {
				t.Errorf("%s: %d and %d admitted; want %d in each window", name, before, after, edgeLimit)
			}
			continue
		case "sliding_log": // both bursts lie within half a period
			most = edgeLimit
		}
		if before < edgeLimit || before+after > most {
			t.Errorf("%s: %d and %d admitted in %v; want %d at once, and %d in all at most", name, before, after, elapsed, edgeLimit, most)
		}
		if periodic := strings.HasPrefix(name, "sliding_"); periodic && before != edgeLimit {
			t.Errorf("%s: %d admitted before the edge; want %d, as nothing leaks within a period", name, before, edgeLimit)
		}
	}
	return true
}

// sleepUntil waits for a time of the wall clock. Whoever calls it looks at the clock
// again, which may have been set meanwhile.
func sleepUntil(at time.Time) { time.Sleep(time.Until(at)) }

// sendBurst sends each algorithm twice its limit, in turns.
func sendBurst(t *testing.T, p *process, names []string) edgeBurst {
	t.Helper()
	b := edgeBurst{begin: time.Now(), admitted: map[string]int{}}
	for range 2 * edgeLimit {
		for _, name := range names {
			resp, _ := get(t, http.DefaultClient, "http://"+p.listen+"/"+name)
			switch resp.StatusCode {
			case http.StatusOK:
				b.admitted[name]++
			case http.StatusTooManyRequests:
			default:
				t.Fatalf("%s: status %d", name, resp.StatusCode)
			}
		}
	}
	b.end = time.Now()
	return b
}

// A file with any of the algorithms is valid, validate names the algorithm, and replay judges a log
// by it: of 6 requests on either side of a full minute, limited to 3 a minute, a fixed window
// admits 3 and 3, the others 3.
func TestValidateAndReplayEveryAlgorithm(t *testing.T) {
	t.Parallel()
	for _, name := range algorithms(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := writeFile(t, "fastlimit.yaml", "rules:\n"+ruleOf(name, "3/m"))
			words := strings.ReplaceAll(name, "_", " ")
			code, stdout, stderr := command(t, nil, "validate", "-c", file)
			// The default is not named.
			if named := strings.Contains(stdout, ", "+words); code != 0 || stderr != "" || named == (name == "leaky_bucket") {
				t.Errorf("validate: exit %d, named %t: %s%s", code, named, stdout, stderr)
			}

			var log strings.Builder
			for _, at := range []string{"10:05:59", "10:06:00"} {
				for range 6 {
					fmt.Fprintf(&log, "192.0.2.7 - - [17/May/2015:%s +0000] \"GET /%s HTTP/1.1\" 200 1 \"-\" \"curl\"\n", at, name)
				}
			}
			var report struct {
				Requests, Allowed, Denied int
				FalseDenials              int `json:"false_denials"`
				Rules                     []struct{ Algorithm string }
			}
			code, stdout, stderr = command(t, strings.NewReader(log.String()), "replay", "-c", file, "-o", "json", "-")
			if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != 0 || stderr != "" {
				t.Fatalf("replay: exit %d, %v, %s%s", code, err, stdout, stderr)
			}
			want := 3
			if name == "fixed_window" {
				want = 6
			}
			if report.Requests != 12 || report.Allowed != want || report.Denied != 12-want || report.FalseDenials != 0 {
				t.Errorf("replay: %+v; want %d admitted", report, want)
			}
			if len(report.Rules) != 1 || report.Rules[0].Algorithm != words {
				t.Errorf("replay: %s", stdout)
			}
		})
	}
}
