package main

import (
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/internal/rls/api"
	"github.com/fastlimit/fastlimit/internal/testkit/plane"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// TestRLSControlPlane: limits come by xDS. Started by force, calls fail until the first.
func TestRLSControlPlane(t *testing.T) {
	t.Parallel()
	p := plane.New(0)
	env := []string{
		"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL=" + p.Serve(t, "127.0.0.1:0"), "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL=100ms",
		"FORCE_START_WITHOUT_INITIAL_CONFIG=true",
	}
	r := startRLS(t, nil, env...)
	c := r.dial(t, insecure.NewCredentials())
	if _, err := ask(t.Context(), c, "shop", "k", ""); status.Code(err) != codes.Unavailable || page(t, "GET", "http://"+r.http+"/healthcheck", "") != "200 OK" {
		t.Errorf("before the first limits: %v", err)
	}
	p.Set(plane.Limit(t, "shop", 2, api.Unit_YEAR))
	r.waitLog("the configuration is in force")
	if got := remaining(t, c, "k", ""); got != 1 {
		t.Errorf("%d left", got)
	}
	p.Set(plane.Limit(t, "shop", 2, api.Unit_UNKNOWN))
	if got := r.waitLog("unknown unit"); !strings.Contains(got, "r-shop: shop.k: unknown unit") {
		t.Errorf("refused: %s", got)
	}
	if got := remaining(t, c, "k", ""); got != 0 {
		t.Errorf("%d left after a bad response", got)
	}
	p.Set(plane.Limit(t, "shop", 5, api.Unit_YEAR))
	late := startRLS(t, nil, env[:3]...) // it serves once it has limits
	if got := remaining(t, late.dial(t, insecure.NewCredentials()), "k", ""); got != 4 {
		t.Errorf("%d left where a start waits for limits", got)
	}
}
