package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/redis/go-redis/v9"
)

// Class sorts the failures of Redis into a closed set, for metrics and for
// deciding what to do.
type Class uint8

// The classes. Their names are those of Redis' own error codes where it has
// one.
const (
	None        Class = iota
	Refused           // nobody listens
	Timeout           // no answer in time
	Reset             // the connection broke
	NoScript          // the script is unknown and could not be loaded
	Loading           // Redis reads its data set
	Busy              // a script runs for too long
	OOM               // maxmemory reached and nothing to evict
	ReadOnly          // a replica
	NoReplicas        // min-replicas-to-write not met
	Misconf           // the last snapshot failed
	MasterDown        // a replica without its master
	ClusterDown       // slots are not served, or being moved
	MaxClients        // too many connections
	Auth              // wrong or no password
	NoPerm            // the ACL does not allow it
	WrongType         // the key holds no string: somebody else's
	Corrupt           // the key holds no bucket: somebody else's
	CrossSlot         // one node of a cluster, taken for all of it, or a proxy that rewrites keys
	Protocol          // not RESP
	NoFile            // this process may open no more files
	Late              // reached Redis when it was of no use any more, and was not carried out
	Unsupported       // an algorithm that this release cannot run in Redis
	Other
	classes
)

var classNames = [classes]string{
	"none", "refused", "timeout", "reset", "noscript", "loading", "busy", "oom", "readonly", "noreplicas",
	"misconf", "masterdown", "clusterdown", "maxclients", "auth", "noperm", "wrongtype", "corrupt",
	"crossslot", "protocol", "nofile", "late", "unsupported", "other",
}

// Classes returns the names of all classes.
func Classes() []string { return append([]string(nil), classNames[1:]...) }

// String returns the name used in metrics.
func (c Class) String() string {
	if c >= classes {
		return "other"
	}
	return classNames[c]
}

// misconfigured tells that somebody has to change something.
func (c Class) misconfigured() bool {
	switch c {
	case NoScript, Auth, NoPerm, WrongType, Corrupt, CrossSlot, Unsupported:
		return true
	default:
		return false
	}
}

// away tells that Redis may come back by itself.
func (c Class) away() bool {
	switch c {
	case Refused, Timeout, Reset, Loading, Busy, OOM, ReadOnly, NoReplicas, Misconf, MasterDown, ClusterDown, MaxClients, NoFile, Late:
		return true
	default:
		return false
	}
}

// Error is a failure of Redis with its class. It matches [bucket.ErrAway] if
// Redis may come back by itself.
//
// An operation that failed may have been carried out all the same, unless
// Redis itself refused it: only then is the error a [redis.Error].
type Error struct {
	Class Class
	Err   error

	fix string // where the class does not tell
}

// Error names the class, the error, and the fix where there is one.
func (e *Error) Error() string {
	s := fmt.Sprintf("fastlimit/redisstore: %s: %v", e.Class, e.Err)
	if fix := e.fixText(); fix != "" {
		s += ": " + fix
	}
	return s
}

// fixText is what to do; "" if there is nothing.
func (e *Error) fixText() string {
	return cmp.Or(e.fix, certificateFix(e.Err), fixes[e.Class])
}

// Unwrap returns the error of the client.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is [bucket.ErrAway] and Redis is away, or
// [bucket.ErrLate] and the operation was too late.
func (e *Error) Is(target error) bool {
	return target == bucket.ErrAway && e.Class.away() || target == bucket.ErrLate && e.Class == Late
}

var fixes = map[Class]string{
	Auth:       "check username and password",
	Timeout:    "check address, load and firewall, and TLS on both sides or none",
	Refused:    "start Redis or correct the address",
	NoPerm:     "grant the user what docs/redis.md lists",
	ReadOnly:   "name the primary, or use Sentinel or Cluster",
	OOM:        "raise maxmemory, or set maxmemory-policy volatile-ttl",
	MaxClients: "raise maxclients",
	NoFile:     "raise the limit of open files of this process (LimitNOFILE, ulimit -n)",
	WrongType:  "give fastlimit its own key prefix or database, or reset the key",
	Corrupt:    "give fastlimit its own key prefix or database, or reset the key",
	CrossSlot:  "set cluster and name its nodes, not a proxy that rewrites keys",
	Protocol:   "check that the address is Redis, and TLS on both sides or none",
	Late:       "check load and round trip, or raise the timeout",
	Busy:       "find the script that blocks Redis: SCRIPT KILL",
	Misconf:    "fix the snapshots of Redis or set stop-writes-on-bgsave-error no",
}

// codes maps the first word of an error reply.
var codes = map[string]Class{
	"NOSCRIPT": NoScript, "LOADING": Loading, "BUSY": Busy, "OOM": OOM, "READONLY": ReadOnly,
	"NOREPLICAS": NoReplicas, "MISCONF": Misconf, "MASTERDOWN": MasterDown, "CLUSTERDOWN": ClusterDown,
	"TRYAGAIN": ClusterDown, "MOVED": ClusterDown, "ASK": ClusterDown, "UNKILLABLE": Busy,
	"NOAUTH": Auth, "WRONGPASS": Auth, "NOPERM": NoPerm, "WRONGTYPE": WrongType, "CORRUPT": Corrupt, "CROSSSLOT": CrossSlot,
	"LATE": Late,
}

// Classify returns the class of an error of the client; [None] for nil.
func Classify(err error) Class {
	var classified *Error
	var reply redis.Error
	switch {
	case err == nil:
		return None
	case errors.As(err, &classified):
		return classified.Class
	case errors.As(err, &reply):
		return classifyReply(reply.Error())
	default:
		return classifyTransport(err)
	}
}

// classifyReply reads the code. Redis before 7 puts its own words before the
// code of an error inside a script.
func classifyReply(msg string) Class {
	code, _, _ := strings.Cut(msg, " ")
	if c, ok := codes[strings.TrimPrefix(code, "-")]; ok {
		return c
	}
	switch {
	case strings.Contains(msg, "max number of clients"):
		return MaxClients
	case strings.Contains(msg, "without any password configured"), strings.Contains(msg, "invalid username-password"),
		strings.Contains(msg, "invalid password"):
		return Auth
	case strings.Contains(msg, "The user executing the script can't"), strings.Contains(msg, "ACL failure in script"):
		return NoPerm
	}
	if _, inner, ok := strings.Cut(msg, "@user_script"); ok {
		for word := range strings.FieldsSeq(inner) {
			if c, ok := codes[strings.TrimPrefix(word, "-")]; ok {
				return c
			}
		}
	}
	return Other
}

func classifyTransport(err error) Class {
	var netErr net.Error
	var name *net.DNSError
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return NoFile
	case certificateFix(err) != "":
		return Protocol
	case errors.As(err, &name) && !name.IsTimeout:
		return Refused
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.EHOSTUNREACH),
		errors.Is(err, syscall.ENETUNREACH):
		return Refused
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout(),
		errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return Timeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return Reset
	}
	return classifyText(err.Error())
}

// classifyText is for errors that the client makes of text.
func classifyText(msg string) Class {
	switch {
	case strings.Contains(msg, "all sentinels"), strings.Contains(msg, "no such host"), strings.Contains(msg, "cluster has no nodes"):
		return Refused
	case strings.Contains(msg, "max number of clients"):
		return MaxClients
	case strings.Contains(msg, "connection pool: failed to dial"), strings.Contains(msg, "network is unreachable"):
		return Refused
	case strings.Contains(msg, "first record does not look like a TLS handshake"),
		strings.HasPrefix(msg, "redis: "), strings.HasPrefix(msg, "tls: "), strings.HasPrefix(msg, "x509: "):
		return Protocol
	}
	return Other
}
