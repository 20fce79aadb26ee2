package conn

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestShortAnswers: answers to clients whose requests are not served are HTTP, dated when they are sent.
func TestShortAnswers(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]shortAnswer{"plain": plainAnswer, "full": fullAnswer, "stream": fullStream} {
		for _, at := range []time.Time{time.Unix(1e9, 0), time.Unix(2e9, 0)} {
			raw := a.at(at)
			resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			body, err := io.ReadAll(resp.Body)
			if dates := resp.Header.Values("Date"); err != nil || len(dates) != 1 || dates[0] != at.UTC().Format(http.TimeFormat) {
				t.Errorf("%s: %q at %v, %v", name, dates, at, err)
			}
			if !strings.HasPrefix(string(body), `{"type":`) || resp.ContentLength != int64(len(body)) || !resp.Close {
				t.Errorf("%s: %+v %s", name, resp, body)
			}
			resp.Body.Close()
		}
	}
}
