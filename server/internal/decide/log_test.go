package decide

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// fasthttp's own log, a line for every bad request, is for developers.
func TestParserLinesAreForDevelopers(t *testing.T) {
	t.Parallel()
	for level, want := range map[slog.Level]int{slog.LevelInfo: 0, slog.LevelDebug: 1} {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))
		parserLog{log}.Printf("error %q", "a\x1b")
		if n := strings.Count(out.String(), "level=DEBUG msg=connection"); n != want || strings.Contains(out.String(), "\x1b") {
			t.Errorf("at %v: %q", level, out.String())
		}
	}
}
