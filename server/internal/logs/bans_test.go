package logs

import (
	"bytes"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// However many bans begin in a second, there are few lines, and the rest is counted; under
// -race, while seconds end.
func TestBansAddUp(t *testing.T) {
	t.Parallel()
	var b Bans
	var out bytes.Buffer
	to := slog.New(slog.NewTextHandler(&out, nil))
	const workers, rounds = 4, 500
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range rounds {
				b.Note(func() Ban { return Ban{Client: "192.0.2.7", Rule: "a", Key: "192.0.2.7", Left: time.Second, Times: 1} })
			}
		})
	}
	b.EndSecond(to)
	all.Wait()
	for range 2 {
		b.EndSecond(to)
	}
	text := out.String()
	told, lines := 0, strings.Count(text, "msg=banned client=192.0.2.7 rule=a key=192.0.2.7 for=")
	for word := range strings.FieldsSeq(text) {
		if n, ok := strings.CutPrefix(word, "suppressed="); ok {
			others, err := strconv.Atoi(n)
			if err != nil {
				t.Error(err)
			}
			told += others
		}
	}
	if lines+told != workers*rounds || told == 0 || lines < MaxBanLines || lines > 2*MaxBanLines {
		t.Errorf("%d lines and %d others of %d in\n%s", lines, told, workers*rounds, text)
	}
}
