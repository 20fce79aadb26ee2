package env

import (
	"errors"
	"fmt"
	"strings"

	"github.com/fastlimit/fastlimit/internal/field"
	"github.com/fastlimit/fastlimit/internal/namedfile"
	"github.com/fastlimit/fastlimit/sync/gossip"
)

const (
	clusterBind   = "FASTLIMIT_CLUSTER_BIND"
	clusterJoin   = "FASTLIMIT_CLUSTER_JOIN"
	clusterSecret = "FASTLIMIT_CLUSTER_SECRET_FILE"
	configFile    = "FASTLIMIT_CONFIG"
)

// clusterBytes is the most that a node tells each other one at a time: some 3,000 counters.
const clusterBytes = 64 << 10

// clusterVariables are those of the fields that may be wrong.
var clusterVariables = map[string]string{"Secret": clusterSecret, "Join": clusterJoin}

// configFile reads which file has a section cluster; "" if none.
func (r *reader) configFile() string {
	path, set := r.get(configFile)
	if set {
		r.withoutRedis(configFile)
	}
	return path
}

// cluster reads which nodes add up their counts; nil if none do.
func (r *reader) cluster() *gossip.Config {
	bind, set := r.get(clusterBind)
	if !set {
		for _, name := range []string{clusterJoin, clusterSecret} {
			if _, set := r.get(name); set {
				r.errs = append(r.errs, fmt.Errorf("%s is set without %s: set it to the address that the other nodes reach, for example 10.0.0.1:7946", name, clusterBind))
			}
		}
		return nil
	}
	if _, set := r.get(configFile); set {
		r.errs = append(r.errs, fmt.Errorf("%s is set, and %s too: a cluster has one source; unset one", clusterBind, configFile))
	}
	r.withoutRedis(clusterBind)
	c := &gossip.Config{Name: "rls", Bind: bind, MaxBytes: clusterBytes}
	if text, set := r.get(clusterJoin); set {
		for address := range strings.SplitSeq(text, ",") {
			c.Join = append(c.Join, strings.TrimSpace(address))
		}
	}
	path, set := r.get(clusterSecret)
	if !set {
		r.errs = append(r.errs, fmt.Errorf("%s is missing: name a file with the same random text on all nodes: openssl rand -base64 32 makes one", clusterSecret))
		return nil
	}
	secret, err := namedfile.ReadFile(path)
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("%s: %q %w: name a file that can be read", clusterSecret, path, err))
		return nil
	}
	c.Secret = strings.TrimRight(string(secret), "\r\n")
	for _, e := range field.All(c.Validate()) {
		name, _, _ := strings.Cut(e.Field, "[")
		r.errs = append(r.errs, fmt.Errorf("%s: %s: %s", clusterVariables[name], e.Problem, e.Fix))
	}
	return c
}

// withoutRedis reports a variable of nodes that count without Redis, if there is one.
func (r *reader) withoutRedis(name string) {
	if text, set := r.get("REDIS_URL"); set && !strings.EqualFold(text, noRedis) {
		r.errs = append(r.errs, errors.New(name+" is set, and REDIS_URL too: nodes share their counts in Redis or by themselves; unset one, or set REDIS_URL=none"))
	}
}
