package overrides

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/internal/operator"
)

// list is Set.List of a rule that exists, or of all.
func (w *world) list(rule string) List {
	w.Helper()
	l, err := w.set.List(rule)
	if err != nil {
		w.Fatal(err)
	}
	return l.(List)
}

// The list of a rule that nobody has is refused, and says which there are. One that other
// nodes have, as an override in the store shows, can be asked for.
func TestListOfNoRule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFlaky()
		w := begin(t, store, nil)
		if l := w.list("ip"); len(l.Overrides) != 1 {
			t.Errorf("%+v", l)
		}
		if l := w.list("m"); len(l.Overrides) != 0 {
			t.Errorf("%+v", l)
		}
		_, err := w.set.List("nope")
		if statusOf(err) != 404 || err.Error() != `no rule "nope"; this node has ip, m` {
			t.Errorf("%v", err)
		}
		name := recordName("nope", "x")
		if err := store.Put(t.Context(), name, `{"rule":"nope","key":["x"],"unlimited":true}`, operator.DefaultFor); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * pollMost)
		if l := w.list("nope"); len(l.Overrides) != 1 || !strings.Contains(l.Overrides[0].Problem, "no rule with that name") {
			t.Errorf("%+v", l)
		}
	})
}

// Errors about values of a wrong type use the names of the body, not those of the program.
func TestPutOfWrongTypes(t *testing.T) {
	t.Parallel()
	w := build(t, newFlaky(), nil)
	for body, want := range map[string]string{
		`{"rule":5,"key":"x"}`:              "rule: want a text, not number",
		`{"rule":"ip","key":5}`:             "key: want a text, or a list of texts",
		`{"rule":"ip","key":[5]}`:           "key: want a text, or a list of texts",
		`{"rule":"ip","rate":5}`:            `rate: want a text such as "1000/s", not number`,
		`{"rule":"ip","burst":"5"}`:         "burst: want a whole number from 0 on, not string",
		`{"rule":"ip","burst":-5}`:          "burst: want a whole number from 0 on, not number -5",
		`{"rule":"ip","unlimited":"yes"}`:   "unlimited: want true or false, not string",
		`{"rule":"ip","key":"x","for":"x"}`: `for: "x" is not a time`,
		`[]`:                                "want an object, not array",
	} {
		_, err := w.set.Put(t.Context(), []byte(body), "me")
		if text := fmt.Sprint(err); statusOf(err) != 400 || !strings.Contains(text, want) || !strings.Contains(text, example) || strings.Contains(text, "overrides.") || strings.Contains(text, "Go ") {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}
