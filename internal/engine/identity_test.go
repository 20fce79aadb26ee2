package engine

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/limit"
)

// ruleFields says of every field of RuleConfig what another value of it means: to
// nodes that exchange counts, and to the rule that would go on with the state.
var ruleFields = map[string]struct {
	other           any
	identity, state bool
}{
	"Name":        {"b", true, true},
	"KeyKind":     {"header", true, true},
	"IPv4Prefix":  {24, true, true},
	"IPv6Prefix":  {48, true, true},
	"Rate":        {limit.Rate{N: 11, Per: time.Second}, true, false}, // units stay: decision 33
	"Burst":       {uint64(21), true, false},
	"CountDenied": {true, false, false},
	"Algorithm":   {limit.TokenBucket, false, false}, // one arithmetic
	"EscalateAt":  {new(0.7), false, false},
	"Strict":      {true, false, false},
	"Cost":        {uint64(2), false, false},
	"Mode":        {limit.Shadow, false, false},
	"Ban":         {limit.BanPolicy{After: 3, For: time.Second}, false, false},
	"MaxWait":     {time.Second, false, false},
	"Thousandths": {true, true, false}, // talkers count in them, and begin anew
	"OnFailure":   {limit.FailOpen, false, false},
	"MaxRate":     {limit.Rate{N: 100, Per: time.Second}, true, false}, // other ticks
	"Tiers":       {[]limit.Tier{{Burst: 7}}, false, false},            // each has state of its own
}

// A field that is added to RuleConfig has to be classified. If it defines the limit and identity does not
// know it, two limits would silently be one: nodes would exchange counts that mean different things, and With
// would keep the buckets of another limit.
func TestEveryRuleFieldIsClassified(t *testing.T) {
	t.Parallel()
	config := func(field string) Config {
		a := rule("a", 10, time.Second, 20)
		if a.KeyKind = "ip"; field == "CountDenied" {
			a.Burst, a.Algorithm = 0, limit.FixedWindow
		}
		return Config{Rules: []limit.RuleConfig{a}, Secret: [32]byte{1}}
	}
	addr := netip.MustParseAddr("192.0.2.7")
	for field := range reflect.TypeFor[limit.RuleConfig]().Fields() {
		class, ok := ruleFields[field.Name]
		if !ok {
			t.Errorf("RuleConfig.%s: say in ruleFields whether it identifies the limit, and whether state outlives it", field.Name)
			continue
		}
		old, err := New(config(field.Name))
		if err != nil {
			t.Fatal(err)
		}
		for old.rules[0].Allow(old.rules[0].AddrKey(addr)) {
		}
		c := config(field.Name)
		reflect.ValueOf(&c.Rules[0]).Elem().FieldByIndex(field.Index).Set(reflect.ValueOf(class.other))
		r := mustWith(t, old, c).rules[0]
		if changed := r.Identity() != old.rules[0].Identity(); changed != class.identity {
			t.Errorf("%s: another identity: %t, want %t", field.Name, changed, class.identity)
		}
		if begins := !r.Continues(old.rules[0]); begins != class.state {
			t.Errorf("%s: begins anew: %t, want %t", field.Name, begins, class.state)
		}
		if forgot := r.buckets.Table.Lookup(r.AddrKey(addr).digest()) == 0; forgot != class.state {
			t.Errorf("%s: the bucket is forgotten: %t, want %t", field.Name, forgot, class.state)
		}
	}
}

// leakless is a store that runs no leaky bucket.
type leakless struct{ nowhere }

func (leakless) Runs(a bucket.Algorithm) bool { return a != bucket.LeakyBucket }

// A store that does not run a rule's algorithm is refused before it is asked, by
// those who plan with it too.
func TestStoreMustRunTheAlgorithm(t *testing.T) {
	t.Parallel()
	_, err := (&Config{Rules: []limit.RuleConfig{rule("a", 1, time.Second, 2)}, Store: leakless{}}).Plan()
	const want = `Store: does not run the leaky bucket, by which rule "a" counts: use one that does, or none`
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}
