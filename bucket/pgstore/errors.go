package pgstore

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/jackc/pgx/v5/pgconn"
)

// The classes of failures in PostgreSQL.
var (
	classRefused     = &remote.Class{Name: "refused", Cause: remote.Away, Fix: "start PostgreSQL or correct the address"}
	classTimeout     = &remote.Class{Name: "timeout", Cause: remote.Away, Fix: "check address, load and firewall"}
	classReset       = &remote.Class{Name: "reset", Cause: remote.Away}    // the connection broke
	classStarting    = &remote.Class{Name: "starting", Cause: remote.Away} // or recovering, or shutting down
	classReadOnly    = &remote.Class{Name: "readonly", Cause: remote.Away, Fix: "name the primary, or all servers and target_session_attrs=read-write"}
	classLocked      = &remote.Class{Name: "locked", Cause: remote.Away, Fix: "find who holds locks on the table for long: pg_blocking_pids(pid)"}
	classCanceled    = &remote.Class{Name: "canceled", Cause: remote.Away, Fix: "raise statement_timeout of this user"}
	classConnections = &remote.Class{Name: "connections", Cause: remote.Away, Fix: "raise max_connections, or the limit of this user"}
	classMemory      = &remote.Class{Name: "memory", Cause: remote.Away, Fix: "raise max_locks_per_transaction if its message says so; else give PostgreSQL memory"}
	classDisk        = &remote.Class{Name: "disk", Cause: remote.Away, Fix: "free space on the disk of PostgreSQL"}
	classAuth        = &remote.Class{Name: "auth", Cause: remote.Misconfigured, Fix: "check user, password, database and pg_hba.conf"}
	classNoPerm      = &remote.Class{Name: "noperm", Cause: remote.Misconfigured, Fix: "grant the user what docs/postgres.md lists: fastlimit store init --grant USER"}
	classSchema      = &remote.Class{Name: "schema", Cause: remote.Misconfigured, Fix: "run fastlimit store init with this release"}
	classCorrupt     = &remote.Class{Name: "corrupt", Cause: remote.Misconfigured, Fix: "empty the table (TRUNCATE), which forgets levels and denies nobody"}
	classProtocol    = &remote.Class{Name: "protocol", Fix: "check that the address is PostgreSQL, and sslmode"}
	classNoFile      = &remote.Class{Name: "nofile", Cause: remote.Away, Fix: "raise the limit of open files of this process (LimitNOFILE, ulimit -n)"}
	classLate        = &remote.Class{Name: "late", Cause: remote.Late, Fix: "check load and round trip, or raise the timeout"}
	classUnsupported = &remote.Class{Name: "unsupported", Cause: remote.Misconfigured, Fix: "run without postgres, or a release that knows it"} // an algorithm
	classOther       = &remote.Class{Name: "other"}
)

var classes = []*remote.Class{
	classRefused, classTimeout, classReset, classStarting, classReadOnly, classLocked, classCanceled, classConnections, classMemory, classDisk,
	classAuth, classNoPerm, classSchema, classCorrupt, classProtocol, classNoFile, classLate, classUnsupported, classOther,
}

// states maps SQLSTATE, all of it or its class of two characters:
// https://www.postgresql.org/docs/15/errcodes-appendix.html
var states = map[string]*remote.Class{
	"08":    classReset,
	"25006": classReadOnly,
	"28":    classAuth, "3D000": classAuth,
	"3F000": classSchema, "42883": classSchema, "42P01": classSchema, "42704": classSchema, "42703": classSchema,
	"40": classLocked, "55P03": classLocked, "55006": classLocked,
	"26000": classProtocol, "42P05": classProtocol, // prepared on another connection
	"42501": classNoPerm,
	"53300": classConnections, "53100": classDisk, "53200": classMemory, "53": classMemory, "58030": classDisk,
	"57014": classCanceled, "57P01": classStarting, "57P02": classStarting, "57P03": classStarting, "57P05": classReset, "57": classStarting,
	"22003": classCorrupt, "22012": classCorrupt, "23514": classCorrupt, "XX001": classCorrupt, "XX002": classCorrupt,
}

// packageName begins errors.
const packageName = "fastlimit/pgstore"

// newError returns err as a failure of class c.
func newError(c *remote.Class, err error) *remote.Error { return errorWithFix(c, err, c.Fix) }

func errorWithFix(c *remote.Class, err error, fix string) *remote.Error {
	return &remote.Error{Package: packageName, Class: c, Err: err, Fix: fix}
}

// recovered converts a panic of pgx to an error: pgx panics on some violations of the
// protocol (FuzzServer). It must be deferred.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = newError(classProtocol, fmt.Errorf("%v", p))
	}
}

// asError returns err with its class, or nil for nil.
func asError(err error) *remote.Error {
	if e, ok := errors.AsType[*remote.Error](err); ok || err == nil {
		return e
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && (e.Code == "26000" || e.Code == "42P05") {
		return errorWithFix(classProtocol, err, "a pooler is in front that does not know prepared statements: add default_query_exec_mode=exec to the URL")
	}
	return newError(classify(err), err)
}

// classify returns the class of an error of the client; nil for nil.
func classify(err error) *remote.Class {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*remote.Error](err); ok {
		return e.Class
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return cmp.Or(states[e.Code], states[e.Code[:min(2, len(e.Code))]], classOther)
	}
	return cmp.Or(network.Classify(err), classifyText(err.Error()))
}

var network = remote.Network{
	Unsupported: classUnsupported, NoFile: classNoFile, Protocol: classProtocol, Refused: classRefused, Timeout: classTimeout, Reset: classReset,
	Foreign: isForeign,
}

// isForeign reports whether what answers is not PostgreSQL, or is not trusted.
func isForeign(err error) bool {
	var message messageError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var header tls.RecordHeaderError
	_, verification := errors.AsType[*tls.CertificateVerificationError](err)
	return errors.As(err, &message) || verification || errors.As(err, &unknown) || errors.As(err, &host) || errors.As(err, &header)
}

// classifyText classifies errors of pgx that have only a text.
func classifyText(msg string) *remote.Class {
	switch {
	case strings.Contains(msg, "read-write"), strings.Contains(msg, "read only"), strings.Contains(msg, "server is in hot standby mode"), strings.Contains(msg, "not primary"):
		return classReadOnly
	case strings.Contains(msg, "conn closed"), strings.Contains(msg, "unexpected EOF"):
		return classReset
	case strings.Contains(msg, "refused TLS"), strings.Contains(msg, "unexpected message"), strings.Contains(msg, "unknown message type"),
		strings.Contains(msg, "can't scan"), strings.Contains(msg, "cannot scan"), strings.Contains(msg, "field descriptions"), strings.Contains(msg, "invalid"), strings.Contains(msg, "tls: "):
		return classProtocol
	}
	return classOther
}
