package config

import (
	"slices"
	"strings"
)

// home is a place for settings, as far as their names tell it.
type home struct {
	where string   // for a message
	names []string // of settings that are nowhere else
}

// The settings of each place but those that may stand in several (TestHomes).
var (
	homeTop = home{"at the top level, without indentation", strings.Fields(
		"listen admin trusted_proxies client_ip_header original_request decide_api memory redis allow deny rules")}
	homeRule = home{"in a rule, indented like its name", strings.Fields(
		"key match rate burst cost mode escalate_at strict on_failure")}
	homeMatch = home{"in match, indented more than match", strings.Fields("host path method")}
	homeRedis = home{"in redis, indented more than redis", strings.Fields(
		"url url_file addresses master_name username password password_file key_prefix timeout tls ca_file cert_file key_file " +
			"server_name database workers queue retry_min retry_max sentinel_username sentinel_password sentinel_password_file")}
	homeCluster = home{"in cluster, indented more than cluster", strings.Fields(
		"bind join secret secret_file interval node advertise max_bytes max_nodes ignore")}
)

// homeOf is where a setting belongs that stands at a path where it does not: "" if
// that is not known. It looks at the places that a wrong indentation leads to.
func homeOf(path, name string) string {
	var likely []home
	switch {
	case !strings.ContainsAny(path, ".["):
		likely = []home{homeRule, homeRedis, homeCluster}
	case strings.Contains(path, ".match."):
		likely = []home{homeRule, homeTop}
	case strings.HasPrefix(path, "rules["):
		likely = []home{homeMatch, homeTop}
	default:
		likely = []home{homeTop}
	}
	for _, h := range likely {
		if slices.Contains(h.names, name) {
			return h.where
		}
	}
	return ""
}
