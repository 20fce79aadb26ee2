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
		got := fit(5000, tc.files, slog.New(slog.NewTextHandler(&logs, nil)))
		if lines := strings.Count(logs.String(), "is lowered"); got != tc.want || lines != tc.lines {
			t.Errorf("%d files: %d, want %d; log:\n%s", tc.files, got, tc.want, logs.String())
		}
	}
}
