package policy_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

// Who sent a request that came through proxies?
func ExampleIdentity_ClientString() {
	clients, err := policy.NewIdentity(policy.Settings{
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	})
	if err != nil {
		log.Fatal(err)
	}
	show := func(peer string, forwardedFor ...string) {
		client, source := clients.ClientString(netip.MustParseAddr(peer), forwardedFor)
		switch source {
		case policy.ClientFromPeer:
			fmt.Println(client, "connected to us")
		case policy.ClientFromHeader:
			fmt.Println(client, "was named by a proxy")
		case policy.ClientUnnamed:
			fmt.Println(client, "is a proxy that named nobody")
		case policy.ClientNoAddress:
			fmt.Println("nobody: refuse the request")
		}
	}
	show("10.0.0.1", "203.0.113.9, 192.0.2.7, 10.0.0.2") // the leftmost may be forged
	show("192.0.2.8", "203.0.113.9")                     // not a proxy of ours
	show("10.0.0.1", "unknown")
	// Output:
	// 192.0.2.7 was named by a proxy
	// 192.0.2.8 connected to us
	// 10.0.0.1 is a proxy that named nobody
}

func ExampleLists() {
	lists, err := policy.NewLists(
		[]netip.Prefix{netip.MustParsePrefix("192.0.2.7/32")},
		[]netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
	)
	if err != nil {
		log.Fatal(err)
	}
	for _, client := range []string{"192.0.2.7", "192.0.2.8", "198.51.100.1"} {
		switch lists.Lookup(netip.MustParseAddr(client)) {
		case policy.ListAllow:
			fmt.Println(client, "is never limited")
		case policy.ListDeny:
			fmt.Println(client, "is refused")
		case policy.ListNone:
			fmt.Println(client, "is up to the rules")
		}
	}
	// Output:
	// 192.0.2.7 is never limited
	// 192.0.2.8 is refused
	// 198.51.100.1 is up to the rules
}

// fields gives the policy access to a request of net/http.
type fields struct{ *http.Request }

func (f fields) Header(name string) (all [][]byte) {
	for _, v := range f.Request.Header[name] {
		all = append(all, []byte(v))
	}
	return all
}

func (f fields) Cookie(name string) (all [][]byte) {
	for _, c := range f.CookiesNamed(name) {
		all = append(all, []byte(c.Value))
	}
	return all
}

// A limit of each user on each path below /api.
func ExampleEngine() {
	settings := policy.Settings{Rules: []policy.RuleSpec{{
		Limit: fastlimit.RuleConfig{Name: "per-user", Rate: fastlimit.Rate{N: 1, Per: time.Minute}, Burst: 1, Strict: true},
		Match: policy.Match{Paths: []string{"/api/*"}},
		Key:   []policy.KeyPart{{Kind: policy.KeyHeader, Name: "X-User"}, {Kind: policy.KeyPath}},
	}}}
	lim, err := fastlimit.New(fastlimit.Config{Rules: settings.Limits()})
	if err != nil {
		log.Fatal(err)
	}
	engine, err := policy.New(lim, settings)
	if err != nil {
		log.Fatal(err)
	}
	clients, err := policy.NewIdentity(settings)
	if err != nil {
		log.Fatal(err)
	}

	decide := func(r *http.Request) {
		peer, _ := netip.ParseAddrPort(r.RemoteAddr)
		in := policy.Incoming{
			Peer: peer.Addr(), Method: []byte(r.Method), Target: []byte(r.RequestURI), Host: []byte(r.Host), Fields: fields{r},
		}
		var request policy.Request
		var scratch policy.Scratch // keep both in a sync.Pool
		if result := engine.Assemble(clients, &in, &scratch, &request); result.Refused != policy.NotRefused {
			fmt.Println(r.RequestURI, "is refused:", result.Refused)
			return
		}
		v := engine.Decide(r.Context(), &request, &scratch)
		fmt.Println(r.RequestURI, v.Decision.Allowed)
	}
	for _, target := range []string{"/api/a", "/api//%61?x", "/api/b", "/other", "/other", "/%zz"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RequestURI = target
		r.Header.Set("X-User", "alice")
		decide(r)
	}
	// Output:
	// /api/a true
	// /api//%61?x false
	// /api/b true
	// /other true
	// /other true
	// /%zz is refused: target
}
