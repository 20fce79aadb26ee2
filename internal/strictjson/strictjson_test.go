package strictjson

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// wanted is what the tests read.
type wanted struct {
	A string         `json:"a"`
	B []int          `json:"b"`
	C map[string]any `json:"c"`
}

func TestDecode(t *testing.T) {
	t.Parallel()
	for body, problem := range map[string]string{
		`{"a":"x","b":[1,2],"c":{"a":{"a":1},"b":[{"a":1},{"a":2}]}}`: "", // the same names in other objects
		` {"a":"\ud83d\ude00"} `:                 "",
		`{"a":"\uD83D\uDE00 \\ud83d \u0041"}`:    "",
		`{"a":"a","b":[],"c":{"x":"a","y":"a"}}`: "", // values may be equal
		`{}`:                                     "",
		`null`:                                   "",
		`{"a":"x"}{}`:                            ErrMore.Error(),
		`{"a":"x"} 1`:                            ErrMore.Error(),
		`{"a":"x"}]`:                             ErrMore.Error(),
		`{"d":1}`:                                `unknown field "d"`,
		`{"a":1}`:                                "cannot unmarshal number",
		`{"a":"x"`:                               "unexpected EOF",
		``:                                       "EOF",
		`{"a":"x","a":"y"}`:                      `"a" is not in lower case, or occurs twice`,
		`{"a":"x","A":"y"}`:                      `"A" is not in lower case`,
		`{"A":"x"}`:                              `"A" is not in lower case`,
		`{"c":{"x":1,"x":2}}`:                    `"x" is not`,
		`{"c":{"x":[{"y":1,"y":2}]}}`:            `"y" is not`,
		`{"c":{"x":{"y":1},"x":2}}`:              `"x" is not`, // after an object within
		`{"b":[],"b":[]}`:                        `"b" is not`,
		`{"c":{"\u0078":1,"x":2}}`:               `"x" is not`, // as it is read, not as it is written
		`{"c":{"Ä":1}}`:                          "is not in lower case",
		`{"a":"\ud83d"}`:                         "byte 6 is half of a surrogate pair",
		`{"a":"\ude00\ud83d"}`:                   "byte 6 is half",
		`{"a":"\ud83dx\ude00"}`:                  "byte 6 is half",
		`{"a":"\ud83d\ud83d"}`:                   "byte 6 is half",
		`{"a":"x\\\udfff"}`:                      "byte 9 is half", // the backslash before is one by itself
		`{"c":{"\ud83d":1}}`:                     "is half",
		`{"a":"\ud83d`:                           "is half",
		"{\"a\":\"\xff\"}":                       "not UTF-8",
		"{\"a\":\"\xed\xa0\xbd\"}":               "not UTF-8", // a surrogate as bytes
		`{"c":{"` + "\x1b" + `X":1}}`:            "invalid character",
	} {
		var v wanted
		err := Decode([]byte(body), &v)
		if (err == nil) != (problem == "") || err != nil && !strings.Contains(err.Error(), problem) {
			t.Errorf("%q: %v, want %q", body, err, problem)
		}
	}
	if err := Decode([]byte(`{}{}`), new(wanted)); !errors.Is(err, ErrMore) {
		t.Errorf("%v, want ErrMore", err)
	}
}

// A name is shown as it can be printed, and no longer than it helps.
func TestProblemsArePrintable(t *testing.T) {
	t.Parallel()
	err := Check([]byte(`{"` + strings.Repeat("A\\u001b", 5000) + `":1}`))
	if err == nil || len(err.Error()) > 2000 || strings.ContainsAny(err.Error(), "\x1b\n") {
		t.Errorf("%.100q", err)
	}
}

// What is accepted has as many names as are written, so no reader takes another one of
// two, and no two strings that differ are read as one: written again they differ still.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{"a":"x","b":[1],"c":{"x":"\ud83d\ude00"}}`, `{"a":"x","a":"y"}`, `{"a":"\ud83d"}`, `[{"a":1}]{`, `{"c":{"x":{"y":1},"x":2}}`, `{":":"\":"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var v any
		if Decode(body, &v) != nil {
			return
		}
		if n := colons(body); names(v) != n {
			t.Fatalf("%q: %d names are read of %d", body, names(v), n)
		}
		if !strings.Contains(strings.ToLower(string(body)), `\ufffd`) && strings.Count(fmt.Sprint(v), "\uFFFD") > strings.Count(string(body), "\uFFFD") {
			t.Fatalf("%q: characters are replaced: %v", body, v)
		}
	})
}

// colons counts those outside strings of valid JSON: one for each name.
func colons(body []byte) (n int) {
	within := false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c == '\\':
			i++
		case c == '"':
			within = !within
		case c == ':' && !within:
			n++
		}
	}
	return n
}

// names counts those of all objects.
func names(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			n += 1 + names(e)
		}
	case []any:
		for _, e := range v {
			n += names(e)
		}
	}
	return n
}
