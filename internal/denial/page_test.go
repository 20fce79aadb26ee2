package denial

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/field"
)

func TestPage(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"":                                    "",
		"busy":                                "busy",
		"{{retry_after}}":                     "61",
		"a{{retry_after}}b{{retry_after}}":    "a61b61",
		"{ {x} } }} { {{retry_after}} }\n":    "{ {x} } }} { 61 }\n",
		"{{retry_after}}{{retry_after}}\xff{": "6161\xff{",
	} {
		p, err := NewPage("text/html; charset=utf-8", body)
		if err != nil {
			t.Errorf("%q: %v", body, err)
			continue
		}
		a := New(rule("per-ip", 1, time.Minute, 1), Options{Status: 429, Page: p})
		d := fastlimit.Decision{RetryAfter: time.Minute + 1}
		got := string(a.AppendBody(nil, &d))
		if got != want || a.BodyLength(&d) != len(want) || a.ContentType != "text/html; charset=utf-8" {
			t.Errorf("%q: got %q of %d bytes, %s; want %q", body, got, a.BodyLength(&d), a.ContentType, want)
		}
		if fixed := !strings.Contains(body, "{{"); (a.Body != nil) != fixed || fixed && string(a.Body) != want {
			t.Errorf("%q: fixed body %q", body, a.Body)
		}
	}
}

func TestPageMistakes(t *testing.T) {
	t.Parallel()
	const media = "text/html"
	for _, c := range []struct{ contentType, body, want string }{
		{media, "a\nbé {{retry}}\n", `Body: at 2:4: "{{retry}}" is not a placeholder`},
		{media, "{{ retry_after }}", `Body: at 1:1: "{{ retry_after }}" is not a placeholder: write {{retry_after}}`},
		{media, "{{{retry_after}}}", `Body: at 1:1: "{{{retry_after}}" is not a placeholder`},
		{media, "{{retry_after}} {{", `Body: at 1:17: "{{" is not a placeholder`},
		{media, "\n\n{{" + strings.Repeat("é", 100), `Body: at 3:1: "{{` + strings.Repeat("é", 38) + `" is not a placeholder`},
		{media, strings.Repeat("a", maxPage+1), "Body: has 16385 bytes: want at most 16384"},
		{"", "", "ContentType: is missing: want a media type"},
		{"html", "", `ContentType: "html" is not a media type`},
		{"text/", "", `ContentType: "text/" is not a media type`},
		{"text/html; charset", "", `ContentType: "text/html; charset" is not a media type`},
		{"text/html\r\nX-Evil: 1", "", `ContentType: "text/html\r\nX-Evil: 1" is not a media type`},
		{"text/html; a=\"é\"", "", `is not a media type`},
		{"text/html; a=" + strings.Repeat("b", 200), "", "ContentType: has 213 bytes, more than 200"},
	} {
		_, err := NewPage(c.contentType, c.body)
		if err == nil || !strings.Contains(err.Error(), c.want) || len(field.All(err)) != 1 {
			t.Errorf("%q %q:\ngot  %v\nwant %s", c.contentType, c.body, err, c.want)
		}
	}
	if _, err := NewPage("html", "{{"); len(field.All(err)) != 2 {
		t.Errorf("of two mistakes: %v", err)
	}
}

// Whatever a file holds, what was read of it renders to the same as replacing the marks.
func FuzzPage(f *testing.F) {
	f.Add("busy: {{retry_after}} s", int64(3))
	f.Add("{{{retry_after}}", int64(0))
	f.Fuzz(func(t *testing.T, body string, seconds int64) {
		p, err := NewPage("text/plain", body)
		wrong := len(body) > maxPage
		for _, after := range strings.Split(body, "{{")[1:] {
			wrong = wrong || !strings.HasPrefix(after, "retry_after}}")
		}
		if wrong != (err != nil) {
			t.Fatalf("%q: %v", body, err)
		}
		if err != nil {
			return
		}
		seconds = max(seconds%(1<<33), 1)
		d := fastlimit.Decision{RetryAfter: time.Duration(seconds) * time.Second}
		a := New(rule("per-ip", 1, time.Minute, 1), Options{Page: p})
		want := strings.ReplaceAll(body, retryAfterMark, strconv.FormatInt(seconds, 10))
		if got := string(a.AppendBody(nil, &d)); got != want || a.BodyLength(&d) != len(want) {
			t.Fatalf("got %q (%d), want %q", got, a.BodyLength(&d), want)
		}
	})
}
