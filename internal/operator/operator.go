// Package operator is what the calls have in common by which operators change something on
// a running node: how they are refused, how they write times and keys, and how those stand
// in the log.
package operator

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit/internal/field"
	"github.com/fastlimit/fastlimit/internal/keytext"
	"github.com/fastlimit/fastlimit/internal/safetext"
	"github.com/fastlimit/fastlimit/internal/span"
)

// refusal is why a change was not made, in words for people.
type refusal struct {
	status int
	detail string
}

func (e *refusal) Error() string { return e.detail }

// HTTPStatus is what the call is answered with.
func (e *refusal) HTTPStatus() int { return e.status }

// Refuse returns an error with a method HTTPStatus. Its text is for who calls.
func Refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

// First is the first problem of an error as one line, without the package that found it.
func First(err error) string {
	for _, e := range field.All(err) {
		return e.Problem + "; " + e.Fix
	}
	return strings.TrimPrefix(err.Error(), "fastlimit/policy: ")
}

// Duration is a text such as "1h" in JSON.
type Duration time.Duration

// UnmarshalJSON implements [json.Unmarshaler].
func (d *Duration) UnmarshalJSON(b []byte) error {
	var text string
	err := json.Unmarshal(b, &text)
	if err == nil {
		var v time.Duration
		v, err = span.Parse(text)
		*d = Duration(v)
	}
	if err != nil {
		return fmt.Errorf(`for: %s is not a time: write for example "30m" or "1h"`, safetext.ASCII(string(b), 40))
	}
	return nil
}

// Bounds of how long a change holds.
const (
	DefaultFor = time.Hour
	leastFor   = time.Second
	MaxFor     = 366 * 24 * time.Hour
)

// Life is how long a change holds whose body has this, nil if nothing. Its error is a
// refusal.
func (d *Duration) Life() (time.Duration, error) {
	life := DefaultFor
	if d != nil {
		life = time.Duration(*d)
	}
	if life < leastFor || life > MaxFor {
		return 0, Refuse(http.StatusBadRequest, "for: %v is out of range; want 1s to %v", life, MaxFor)
	}
	return life, nil
}

// WrongType says of a JSON value of another type what who calls sees of it: the field and
// what it wants, by the field, and not the types of this program.
func WrongType(err error, want map[string]string) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return err
	}
	if want[wrong.Field] == "" {
		return fmt.Errorf("want an object, not %s", wrong.Value)
	}
	return fmt.Errorf("%s: want %s, not %s", wrong.Field, want[wrong.Field], wrong.Value)
}

// KeyText is a key for logs and errors, printable and with bounds.
func KeyText(key []string) string { return keytext.JoinCut(key, 128) }

// NoRule is the refusal of a name that no rule has, with those that some have.
func NoRule(name string, have []string) error {
	return Refuse(http.StatusNotFound, "no rule %q; this node has %s", safetext.ASCII(name, 64), strings.Join(have[:min(20, len(have))], ", "))
}
