//go:build linux && netns

package banbench

import (
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/netns"
)

// A server that drops its flood is seen to, and to spend less on it than one that answers.
func TestNetnsRun(t *testing.T) {
	netns.Run(t, func() {
		all, err := Run(t.Context(), Options{Servers: []string{"haproxy-drop", "haproxy"}, Sources: []int{100}, Rate: 2000, Duration: 2 * time.Second})
		if err != nil || len(all) != 2 {
			t.Fatalf("%v %+v", err, all)
		}
		for i, r := range all {
			if (r.QuietMillis != nil) != (i == 0) || (*r.Denied > 0.5) != (i == 1) || r.Requests < 100 || *r.ReceiverCPU <= 0 || *r.ProcessCPU <= 0 {
				t.Errorf("%+v", r)
			}
		}
		// By the processes alone: the receiving thread also does the kernel's work for whatever else runs.
		dropped, answered := *all[0].ProcessCPU/float64(all[0].Requests), *all[1].ProcessCPU/float64(all[1].Requests)
		if dropped >= answered || *all[0].CPUMicros <= 0 || *all[1].CPUMicros <= 0 {
			t.Errorf("a request that is dropped costs the server %.2g, and %.2g if it is answered: %+v", dropped, answered, all)
		}
	})
}
