package fastlimit_test

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit"
)

// The example of README.md.
func ExampleLimiter() {
	lim, err := fastlimit.New(fastlimit.Config{Rules: []fastlimit.RuleConfig{
		{Name: "logins", Rate: fastlimit.Rate{N: 10, Per: time.Hour}, Burst: 20},
	}})
	if err != nil {
		panic(err)
	}
	rule, _ := lim.Rule("logins") // once, not per request

	attacker := rule.AddrKey(netip.MustParseAddr("192.0.2.7"))
	for range 1000 {
		rule.Allow(attacker)
	}
	d := rule.Take(context.Background(), attacker, 1)
	fmt.Println("attacker:", d.Allowed, d.Stage)

	neighbour := rule.AddrKey(netip.MustParseAddr("192.0.2.8"))
	fmt.Println("neighbour:", rule.Allow(neighbour))

	// Output:
	// attacker: false table
	// neighbour: true
}

// A client that is denied three times within ten seconds is banned for a minute. OnBan
// could report that to a firewall.
func ExampleConfig_ban() {
	lim, err := fastlimit.New(fastlimit.Config{
		Rules: []fastlimit.RuleConfig{{
			Name: "logins", Rate: fastlimit.Rate{N: 5, Per: time.Hour},
			Ban: fastlimit.BanPolicy{After: 3, For: time.Minute, Max: time.Hour},
		}},
		OnBan: func(b fastlimit.Ban) {
			prefix, _ := b.Prefix()
			fmt.Println("rule", b.Rule.Name(), "bans", prefix, "for", b.Left)
		},
	})
	if err != nil {
		panic(err)
	}
	rule, _ := lim.Rule("logins")
	attacker := rule.AddrKey(netip.MustParseAddr("192.0.2.7"))
	for range 1000 {
		rule.Allow(attacker)
	}
	d := rule.Take(context.Background(), attacker, 1)
	fmt.Println("attacker:", d.Allowed, d.Stage)
	fmt.Println("forgiven:", rule.Unban(attacker), rule.Take(context.Background(), attacker, 1).Stage)

	// Output:
	// rule logins bans 192.0.2.7/32 for 1m0s
	// attacker: false ban
	// forgiven: true table
}

// A clock that moves only when it is set: here six requests come at once and another one
// after two seconds.
func ExampleManualClock() {
	var clock fastlimit.ManualClock
	always := 0.0 // every request but the first is checked exactly
	lim, err := fastlimit.New(fastlimit.Config{Clock: &clock, Rules: []fastlimit.RuleConfig{
		{Name: "api", Rate: fastlimit.Rate{N: 1, Per: 2 * time.Second}, Burst: 3, EscalateAt: &always},
	}})
	if err != nil {
		panic(err)
	}
	rule, _ := lim.Rule("api")
	key := rule.BytesKey([]byte("api-key-1"))
	ctx := context.Background()
	for i := range 6 {
		d := rule.Take(ctx, key, 1)
		fmt.Println(i, d.Allowed, d.Stage, d.Remaining, d.RetryAfter)
	}
	clock.Set(2 * time.Second)
	d := rule.Take(ctx, key, 1)
	fmt.Println("after 2s", d.Allowed, d.Stage, d.Remaining, d.RetryAfter)

	// Output:
	// 0 true filter -1 0s
	// 1 true exact 2 0s
	// 2 true exact 1 0s
	// 3 true exact 0 0s
	// 4 false table 0 2s
	// 5 false table 0 2s
	// after 2s true exact 0 0s
}

// A request takes from the buckets of all rules, or from none.
func ExampleLimiter_TakeAll() {
	var clock fastlimit.ManualClock // so that the test does not depend on the time it takes
	lim, err := fastlimit.New(fastlimit.Config{Clock: &clock, Rules: []fastlimit.RuleConfig{
		{Name: "per-ip", Rate: fastlimit.Rate{N: 100, Per: time.Second}, Burst: 200, Strict: true},
		{Name: "per-account", Rate: fastlimit.Rate{N: 1, Per: time.Minute}, Burst: 2, Strict: true},
	}})
	if err != nil {
		panic(err)
	}
	ip, _ := lim.Rule("per-ip")
	account, _ := lim.Rule("per-account")
	charges := []fastlimit.Charge{
		{Rule: ip, Key: ip.AddrKey(netip.MustParseAddr("2001:db8::1")), Cost: 1},
		{Rule: account, Key: account.BytesKey([]byte("alice")), Cost: 1},
	}
	for range 3 {
		d, by := lim.TakeAll(context.Background(), charges)
		fmt.Println(d.Allowed, charges[by].Rule.Name(), d.RetryAfter)
	}
	d := ip.Peek(charges[0].Key, 1)
	fmt.Println("left for the address:", d.Remaining)

	// Output:
	// true per-account 0s
	// true per-account 0s
	// false per-account 1m0s
	// left for the address: 198
}
