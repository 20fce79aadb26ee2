package redisstore

import (
	"cmp"
	"errors"
	"strings"

	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/redis/go-redis/v9"
)

// The classes of failures in Redis, named after Redis' own error code where there
// is one.
var (
	classRefused     = &remote.Class{Name: "refused", Cause: remote.Away, Fix: "start Redis or correct the address"}
	classTimeout     = &remote.Class{Name: "timeout", Cause: remote.Away, Fix: "check address, load and firewall, and TLS on both sides or none"}
	classReset       = &remote.Class{Name: "reset", Cause: remote.Away}             // the connection broke
	classNoScript    = &remote.Class{Name: "noscript", Cause: remote.Misconfigured} // the script is unknown and could not be loaded
	classLoading     = &remote.Class{Name: "loading", Cause: remote.Away}           // Redis reads its data set
	classBusy        = &remote.Class{Name: "busy", Cause: remote.Away, Fix: "find the script that blocks Redis: SCRIPT KILL"}
	classOOM         = &remote.Class{Name: "oom", Cause: remote.Away, Fix: "raise maxmemory, or set maxmemory-policy volatile-ttl"}
	classReadOnly    = &remote.Class{Name: "readonly", Cause: remote.Away, Fix: "name the primary, or use Sentinel or Cluster"} // a replica
	classNoReplicas  = &remote.Class{Name: "noreplicas", Cause: remote.Away}                                                    // min-replicas-to-write not met
	classMisconf     = &remote.Class{Name: "misconf", Cause: remote.Away, Fix: "fix the snapshots of Redis or set stop-writes-on-bgsave-error no"}
	classMasterDown  = &remote.Class{Name: "masterdown", Cause: remote.Away}  // a replica without its master
	classClusterDown = &remote.Class{Name: "clusterdown", Cause: remote.Away} // slots are not served, or being moved
	classMaxClients  = &remote.Class{Name: "maxclients", Cause: remote.Away, Fix: "raise maxclients"}
	classAuth        = &remote.Class{Name: "auth", Cause: remote.Misconfigured, Fix: "check username and password"}
	classNoPerm      = &remote.Class{Name: "noperm", Cause: remote.Misconfigured, Fix: "grant the user what docs/redis.md lists"}
	classWrongType   = &remote.Class{Name: "wrongtype", Cause: remote.Misconfigured, Fix: foreignKey} // no string
	classCorrupt     = &remote.Class{Name: "corrupt", Cause: remote.Misconfigured, Fix: foreignKey}   // no bucket
	classCrossSlot   = &remote.Class{Name: "crossslot", Cause: remote.Misconfigured, Fix: "set cluster and name its nodes, not a proxy that rewrites keys"}
	classProtocol    = &remote.Class{Name: "protocol", Fix: "check that the address is Redis, and TLS on both sides or none"}
	classNoFile      = &remote.Class{Name: "nofile", Cause: remote.Away, Fix: "raise the limit of open files of this process (LimitNOFILE, ulimit -n)"}
	classLate        = &remote.Class{Name: "late", Cause: remote.Late, Fix: "check load and round trip, or raise the timeout"}
	classUnsupported = &remote.Class{Name: "unsupported", Cause: remote.Misconfigured, Fix: "run without redis, or a release that knows it"} // an algorithm that this release cannot run in Redis
	classOther       = &remote.Class{Name: "other"}
)

const foreignKey = "give fastlimit its own key prefix or database, or reset the key"

var classes = []*remote.Class{
	classRefused, classTimeout, classReset, classNoScript, classLoading, classBusy, classOOM, classReadOnly, classNoReplicas, classMisconf,
	classMasterDown, classClusterDown, classMaxClients, classAuth, classNoPerm, classWrongType, classCorrupt, classCrossSlot, classProtocol,
	classNoFile, classLate, classUnsupported, classOther,
}

// packageName begins errors.
const packageName = "fastlimit/redisstore"

// newError returns err as a failure of class c. A fix for err itself takes
// precedence over the one for the class.
func newError(c *remote.Class, err error) *remote.Error {
	return errorWithFix(c, err, cmp.Or(certificateFix(err), c.Fix))
}

func errorWithFix(c *remote.Class, err error, fix string) *remote.Error {
	return &remote.Error{Package: packageName, Class: c, Err: err, Fix: fix}
}

// asError returns err with its class, or nil for nil.
func asError(err error) *remote.Error {
	if e, ok := errors.AsType[*remote.Error](err); ok || err == nil {
		return e
	}
	return newError(classify(err), err)
}

// codes maps the first word of an error reply.
var codes = map[string]*remote.Class{
	"NOSCRIPT": classNoScript, "LOADING": classLoading, "BUSY": classBusy, "OOM": classOOM, "READONLY": classReadOnly,
	"NOREPLICAS": classNoReplicas, "MISCONF": classMisconf, "MASTERDOWN": classMasterDown, "CLUSTERDOWN": classClusterDown,
	"TRYAGAIN": classClusterDown, "MOVED": classClusterDown, "ASK": classClusterDown, "UNKILLABLE": classBusy,
	"NOAUTH": classAuth, "WRONGPASS": classAuth, "NOPERM": classNoPerm, "WRONGTYPE": classWrongType, "CORRUPT": classCorrupt, "CROSSSLOT": classCrossSlot,
	"LATE": classLate,
}

// classify returns the class of an error of the client; nil for nil.
func classify(err error) *remote.Class {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*remote.Error](err); ok {
		return e.Class
	}
	if reply, ok := errors.AsType[redis.Error](err); ok {
		return classifyReply(reply.Error())
	}
	class := network.Classify(err)
	if class == nil && (errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted)) {
		return classTimeout
	}
	return cmp.Or(class, classifyText(err.Error()))
}

// classifyReply classifies an error reply by its code. For errors inside a script, Redis
// before 7 puts other text before the code.
func classifyReply(msg string) *remote.Class {
	code, _, _ := strings.Cut(msg, " ")
	if c, ok := codes[strings.TrimPrefix(code, "-")]; ok {
		return c
	}
	switch {
	case strings.Contains(msg, "max number of clients"):
		return classMaxClients
	case strings.Contains(msg, "without any password configured"), strings.Contains(msg, "invalid username-password"),
		strings.Contains(msg, "invalid password"):
		return classAuth
	case strings.Contains(msg, "The user executing the script can't"), strings.Contains(msg, "ACL failure in script"):
		return classNoPerm
	}
	if _, inner, ok := strings.Cut(msg, "@user_script"); ok {
		for word := range strings.FieldsSeq(inner) {
			if c, ok := codes[strings.TrimPrefix(word, "-")]; ok {
				return c
			}
		}
	}
	return classOther
}

var network = remote.Network{
	Unsupported: classUnsupported, NoFile: classNoFile, Protocol: classProtocol, Refused: classRefused, Timeout: classTimeout, Reset: classReset,
	Foreign: func(err error) bool {
		_, answer := errors.AsType[answerError](err)
		return answer || certificateFix(err) != ""
	},
}

// classifyText classifies errors of go-redis that have only a text.
func classifyText(msg string) *remote.Class {
	switch {
	case strings.Contains(msg, "all sentinels"), strings.Contains(msg, "no such host"), strings.Contains(msg, "cluster has no nodes"):
		return classRefused
	case strings.Contains(msg, "max number of clients"):
		return classMaxClients
	case strings.Contains(msg, "connection pool: failed to dial"), strings.Contains(msg, "network is unreachable"):
		return classRefused
	case strings.Contains(msg, "first record does not look like a TLS handshake"),
		strings.HasPrefix(msg, "redis: "), strings.HasPrefix(msg, "tls: "), strings.HasPrefix(msg, "x509: "):
		return classProtocol
	}
	return classOther
}
