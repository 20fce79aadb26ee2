package engine

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fastlimit/fastlimit/limit"
)

func TestTextOfRulesSurvives(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(30, 10))
	bits := []string{"\xff", "\xc3", "\xa4", "a", "\x00", "\"", "\\", "<", "\u2028", "\ufffd", "ä", "\U0001F600"}
	text := func() (s string) {
		for range 1 + rng.IntN(3) {
			s += bits[rng.IntN(len(bits))]
		}
		return s
	}
	refused := 0
	for range 200 {
		c := strictRule(text(), 1, time.Hour, 1)
		c.KeyKind = text()
		config := Config{Rules: []limit.RuleConfig{c}, Memory: limit.MinMemory}
		lim, err := New(config)
		if ok := utf8.ValidString(c.Name) && utf8.ValidString(c.KeyKind); ok != (err == nil) {
			t.Fatalf("%+q, %+q: %v", c.Name, c.KeyKind, err)
		}
		if err != nil {
			refused++
			continue
		}
		lim.rules[0].Allow(lim.rules[0].BytesKey([]byte("x")))
		var file bytes.Buffer
		if err := lim.Save(&file); err != nil {
			t.Fatal(err)
		}
		loaded, err := Load(&file, LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r := mustWith(t, loaded, config).rules[0]
		if r.Allow(r.BytesKey([]byte("x"))) {
			t.Errorf("%+q, %+q: a client that was denied is admitted after a restart", c.Name, c.KeyKind)
		}
	}
	if refused < 20 || refused > 180 {
		t.Errorf("%d of 200 refused: this shows little", refused)
	}
}
