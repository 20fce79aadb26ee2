package decide

import (
	"bytes"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/server/internal/conn"
)

// A panic on the way to the decision is answered, as fasthttp's path does, and not the
// end of the process. Answers to earlier requests, which are in dst, stay.
func TestPanicBeforeTheDecision(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := newService(t, &log, nil)
	out, last, ok := s.answerSimple([]byte("earlier"), new(conn.Conn), nil, 0, false) // without a header
	answer, found := strings.CutPrefix(string(out), "earlierHTTP/1.1 500 ")
	if !found || !last || !ok || !strings.Contains(answer, "\r\nConnection: close\r\n") || s.bad.internal.Count.Load() != 1 {
		t.Errorf("%q %v %v", out, last, ok)
	}
	if n := strings.Count(log.String(), "panic in a request"); n > 1 {
		t.Errorf("logged %d times", n)
	}
}
