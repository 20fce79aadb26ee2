package operator

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/field"
)

func TestLife(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"null": "1h0m0s", `"1s"`: "1s", `"366h"`: "366h0m0s", `"8784h"`: "8784h0m0s",
		`"999ms"`: "for: 999ms is out of range", `"8784h0m1s"`: "for: 8784h0m1s is out of range", `"-1h"`: "out of range", `"0"`: "out of range",
		`"1"`: `for: "1" is not a time`, `1`: "for: 1 is not a time", `"\u001b[2J"`: `is not a time`, `"99999999999h"`: "is not a time",
	} {
		var change struct{ For *Duration }
		var life time.Duration
		err := json.Unmarshal(fmt.Appendf(nil, `{"For":%s}`, text), &change)
		if err == nil {
			life, err = change.For.Life()
		}
		if got := fmt.Sprint(life, " ", err); !strings.Contains(got, want) || strings.Contains(got, "\x1b") {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		KeyText([]string{"192.0.2.7"}):                       "192.0.2.7",
		KeyText([]string{"GET", "/a b"}):                     `GET "/a b"`,
		KeyText([]string{"\x1b[2J\n", "\xff"}):               `"\x1b[2J\n" "\xff"`,
		KeyText(nil):                                         "",
		First(errors.New("all")):                             "all",
		First(&field.Error{Problem: "p", Fix: "f"}):          "p; f",
		Refuse(404, "%d of %s", 1, "x").Error():              "1 of x",
		NoRule("a\x1b", []string{"b", "c"}).Error():          `no rule "a\\x1b"; this node has b, c`,
		fmt.Sprint(WrongType(errors.New("x"), nil)):          "x",
		fmt.Sprint(len(KeyText([]string{long})) <= 200):      "true",
		fmt.Sprint(len(NoRule(long, nil).Error()) <= 200):    "true",
		fmt.Sprint(NoRule("x", make([]string, 1000)) != nil): "true",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if e, ok := Refuse(404, "x").(interface{ HTTPStatus() int }); !ok || e.HTTPStatus() != 404 {
		t.Error("a refusal has no status")
	}
}

var long = strings.Repeat("x", 10_000)

func TestWrongType(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"burst":"x"}`: "burst: want a number, not string", `[]`: "want an object, not array", `{`: "unexpected end of JSON input",
	} {
		var change struct {
			Burst int `json:"burst"`
		}
		err := WrongType(json.Unmarshal([]byte(text), &change), map[string]string{"burst": "a number"})
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
