// Package strictjson reads JSON of people and programs that may not be trusted, so that
// what is read is what any other reader would read.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/fastlimit/fastlimit/internal/safetext"
)

// Decode reads one value into to, without fields that to lacks and with nothing after it.
func Decode(body []byte, to any) error {
	if err := Check(body); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		return err // the caller says what it wants
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return ErrMore
	}
	return nil
}

// ErrMore means that something follows the value.
var ErrMore = errors.New("there is more after the value: send one JSON object")

// Check refuses what encoding/json accepts but other readers may read as another
// key: invalid UTF-8 and half surrogate pairs, which become U+FFFD; names that occur
// twice, of which the last wins; names in another case.
func Check(body []byte) error {
	if !utf8.Valid(body) {
		return errors.New("the body is not UTF-8, so different keys would become one; keys with other bytes are not supported here")
	}
	if at, ok := halfSurrogate(body); ok {
		return fmt.Errorf("the escape at byte %d is half of a surrogate pair, so different keys would become one; write both halves, or the character", at)
	}
	return checkNames(json.NewDecoder(bytes.NewReader(body)))
}

// halfSurrogate finds an escape of half a surrogate pair. In JSON a backslash occurs
// only within strings.
func halfSurrogate(body []byte) (at int, found bool) {
	for i := 0; i < len(body); i++ {
		if body[i] != '\\' {
			continue
		}
		first, ok := escaped(body[i:])
		switch {
		case !ok:
			i++ // another escape, or one that the decoder refuses
		case !utf16.IsSurrogate(first):
			i += 5
		default:
			second, _ := escaped(body[min(i+6, len(body)):])
			if utf16.DecodeRune(first, second) == utf8.RuneError {
				return i, true
			}
			i += 11
		}
	}
	return 0, false
}

// escaped reads a \u escape, which has four hexadecimal digits.
func escaped(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	v, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(v), err == nil
}

// checkNames finds names that occur twice in an object. Invalid JSON is left to the
// decoder.
func checkNames(dec *json.Decoder) error {
	var open []map[string]bool // names seen; nil for an array
	name := false              // the next token is one
	for {
		token, err := dec.Token()
		if err != nil {
			return nil
		}
		switch v := token.(type) {
		case json.Delim:
			switch v {
			case '{':
				open, name = append(open, map[string]bool{}), true
				continue
			case '[':
				open = append(open, nil)
			default:
				open = open[:len(open)-1]
			}
		case string:
			if seen := last(open); name {
				if folded := strings.ToLower(v); seen[folded] || folded != v {
					return fmt.Errorf("the name %q is not in lower case, or occurs twice in one object", safetext.ASCII(v, 256))
				}
				seen[v], name = true, false
				continue
			}
		}
		name = last(open) != nil
	}
}

func last(open []map[string]bool) map[string]bool {
	if len(open) == 0 {
		return nil
	}
	return open[len(open)-1]
}
