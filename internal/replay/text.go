package replay

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// WriteText writes the report for people, with the top clients by denied requests.
func (r *Report) WriteText(out io.Writer, top int) error {
	// tabwriter keeps errors for Flush, so those of Fprintf need no look.
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "requests\t%d\t%s\n", r.Requests, r.span())
	fmt.Fprintf(w, "allowed\t%d\t%s\n", r.Allowed, percent(r.Allowed, r.Requests))
	fmt.Fprintf(w, "denied\t%d\t%s\n", r.Denied, percent(r.Denied, r.Requests))
	fmt.Fprintf(w, "skipped\t%d\tlines that could not be parsed\n", r.Skipped)
	if r.Late > 0 {
		fmt.Fprintf(w, "late\t%d\tlines that were too far out of order to be judged at their time\n", r.Late)
	}
	fmt.Fprintf(w, "false denials\t%d\tof clients that were within their limit\n", r.FalseDenials)
	for i := range r.Rules {
		r.Rules[i].writeText(w)
	}
	r.writeClients(w, top)
	// Each begins with a line end, so that "and more" can follow the last one.
	for _, s := range r.SkippedLines {
		fmt.Fprintf(w, "\nskipped line %d%s: %s: %s", s.Line, inFile(s.File), s.Reason, s.Text)
	}
	if len(r.SkippedLines) > 0 {
		if more := r.Skipped - len(r.SkippedLines); more > 0 {
			fmt.Fprintf(w, "\nand %d more", more)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// span is the time from the first request to the last, "" if there was none.
func (r *Report) span() string {
	if r.Requests == 0 {
		return ""
	}
	return "from " + r.First + " to " + r.Last
}

// writeText writes one rule. Shadow rules have no oracle, so they get no line about
// exact buckets.
func (r *RuleReport) writeText(w io.Writer) {
	limit, exact, over := fmt.Sprintf("burst %d", r.Burst), "buckets", "burst"
	if r.periodic() {
		limit, exact, over = r.Algorithm, r.Algorithm+"s", "limit"
	}
	fmt.Fprintf(w, "\nrule %s: %s, %s, %s\n", r.Name, r.Rate, limit, r.Mode)
	fmt.Fprintf(w, "  stage\tallowed\tdenied\n")
	for _, s := range r.Stages {
		fmt.Fprintf(w, "  %s\t%d\t%d\n", s.Stage, s.Allowed, s.Denied)
	}
	if r.Mode == "enforce" {
		fmt.Fprintf(w, "  exact %s alone would deny %d; the highest excess over the %s was %.1f of %.1f allowed\n",
			exact, r.ExactDenied, over, r.Excess, r.ExcessBound)
	}
	if r.Evictions > 0 {
		fmt.Fprintf(w, "  %d buckets were evicted: raise memory\n", r.Evictions)
	}
}

// writeClients writes the clients denied most. "NO" is a false denial, which P1
// rules out: it is in capitals because it would be a bug of the limiter.
func (r *Report) writeClients(w io.Writer, top int) {
	n := min(max(top, 0), len(r.Clients))
	if n == 0 {
		return
	}
	fmt.Fprintf(w, "\n%d of %d clients denied, the most denied first\n", n, len(r.Clients))
	fmt.Fprintf(w, "  rule\tclient\trequests\tdenied\tover its limit\n")
	for _, c := range r.Clients[:n] {
		over := "yes"
		switch {
		case c.Rule == denyList:
			over = "on the deny list"
		case !c.OverLimit:
			over = "NO"
		}
		fmt.Fprintf(w, "  %s\t%s\t%d\t%d\t%s\n", c.Rule, c.Key, c.Requests, c.Denied, over)
	}
}

// percent is a share for people, or "" of nothing: an empty log has no rate.
func percent(n, of int) string {
	if of == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
}

// inFile names the log of a line, unless it has no name.
func inFile(name string) string {
	if name == "" {
		return ""
	}
	return " of " + name
}
