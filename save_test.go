package fastlimit

import (
	"bytes"
	"testing"
	"time"
)

// reloaded saves a limiter and loads it.
func reloaded(t *testing.T, l *Limiter, o LoadOptions) *Limiter {
	t.Helper()
	var file bytes.Buffer
	if err := l.Save(&file); err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(&file, o)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// TestRestartRemembers: whoever is over its limit before a restart is over it after it, and
// whoever is not yet a suspect goes on where it was.
func TestRestartRemembers(t *testing.T) {
	t.Parallel()
	c := Config{Memory: MinMemory, Rules: []RuleConfig{{Name: "r", Rate: Rate{1, time.Minute}, Burst: 100}}}
	l, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	r := l.Rules()[0]
	for range 1000 {
		r.Allow(r.BytesKey([]byte("attacker")))
	}
	for range 30 {
		r.Allow(r.BytesKey([]byte("client")))
	}
	next, err := reloaded(t, l, LoadOptions{}).With(c)
	if err != nil {
		t.Fatal(err)
	}
	r = next.Rules()[0]
	if d := r.Peek(r.BytesKey([]byte("attacker")), 1); d.Allowed || d.Stage != StageTable {
		t.Errorf("the attacker after a restart: %+v", d)
	}
	for i := range 200 {
		if !r.Allow(r.BytesKey([]byte("client"))) {
			if i < 70 || i > 121 {
				t.Errorf("the client was admitted %d more, want 70 to 121", i)
			}
			return
		}
	}
	t.Error("the client is never denied")
}
