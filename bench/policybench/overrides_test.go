package policybench

import (
	"testing"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
)

// What is measured is what it is called: clients with an override have it, others do not,
// and nobody is denied.
func TestRun(t *testing.T) {
	t.Parallel()
	o := Options{Overrides: 300, Clients: 1000, Rounds: 2, Decisions: 2000}
	for _, byHeader := range []bool{false, true} {
		s, err := newSubject(o, kinds[1], byHeader)
		if err != nil {
			t.Fatal(err)
		}
		for i := range o.Clients {
			s.becomes(i)
			v := s.engine.Decide(t.Context(), &s.request, &s.scratch)
			if own := v.Rule != nil && (*engine.Rule)(v.Rule).TierIndex() >= 0; !v.Decision.Allowed || own != (i < o.Overrides) || own && v.Decision.Stage != fastlimit.StageExact {
				t.Fatalf("by header %t, client %d: %+v of tier %t", byHeader, i, v.Decision, own)
			}
		}
	}
	results, err := Run(t.Context(), o)
	if err != nil || len(results) != 18 {
		t.Fatalf("%d results, %v", len(results), err)
	}
	for i, r := range results {
		if *r.NsPerOp < 0 || *r.PlannedBytes <= 0 || i%3 == 1 && *r.PlannedBytes <= *results[i-1].PlannedBytes || (r.Speedup != nil) != (i%3 > 0) {
			t.Errorf("%s, %s: %v ns, %d bytes planned, speedup %v", r.Workload, r.Limiter, *r.NsPerOp, *r.PlannedBytes, r.Speedup)
		}
	}
	if (Options{Overrides: 5, Clients: 5}).Check() == nil {
		t.Error("nobody without an override is accepted")
	}
}
