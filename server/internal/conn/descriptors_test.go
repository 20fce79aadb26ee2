package conn

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestFitDescriptors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ files, want, lines int }{
		{0, 5000, 0}, {1 << 20, 5000, 0}, {5256, 5000, 0}, {5255, 4999, 1}, {1024, 768, 1}, {300, 150, 1}, {1, 1, 1},
	} {
		var logs bytes.Buffer
		got, _ := fit(5000, 0, tc.files, slog.New(slog.NewTextHandler(&logs, nil)))
		if lines := strings.Count(logs.String(), "is lowered"); got != tc.want || lines != tc.lines {
			t.Errorf("%d files: %d, want %d; log:\n%s", tc.files, got, tc.want, logs.String())
		}
	}
}

// The connections to servers behind count too; the larger half of the room is the clients'.
func TestFitDescriptorsOfAProxy(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ files, clients, behind, lines int }{
		{0, 5000, 1000, 0}, {6256, 5000, 1000, 0}, {6255, 4999, 1000, 1}, {2256, 1000, 1000, 1}, {2254, 999, 999, 2}, {300, 75, 75, 2}, {1, 1, 1, 2},
	} {
		var logs bytes.Buffer
		clients, behind := fit(5000, 1000, tc.files, slog.New(slog.NewTextHandler(&logs, nil)))
		if lines := strings.Count(logs.String(), "is lowered"); clients != tc.clients || behind != tc.behind || lines != tc.lines {
			t.Errorf("%d files: %d and %d, want %+v; log:\n%s", tc.files, clients, behind, tc, logs.String())
		}
	}
}
