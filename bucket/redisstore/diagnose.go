package redisstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/redis/go-redis/v9"
)

// diagnose looks for the cause of an error at the start where go-redis reports
// only the effect: TLS on one side only, or a refusal by sentinels. It returns
// err if it finds nothing better.
func (d *driver) diagnose(ctx context.Context, err *remote.Error) *remote.Error {
	ctx, cancel := context.WithTimeout(ctx, 2*d.config.batchTimeout())
	defer cancel()
	o := d.client.options
	if better := d.diagnoseSentinel(ctx, err); better != nil {
		return better
	}
	unclear := []*remote.Class{classReset, classTimeout, classProtocol, classRefused, classOther} // otherwise Redis has answered
	if !slices.Contains(unclear, err.Class) || certificateFix(err.Err) != "" {
		return err
	}
	for _, addr := range o.Addrs {
		host, _, splitErr := net.SplitHostPort(addr)
		if splitErr != nil { // a socket
			continue
		}
		switch {
		case o.TLSConfig == nil && speaksTLS(ctx, addr):
			return errorWithFix(classProtocol, fmt.Errorf("%s speaks TLS, and the connection is without", addr),
				"write rediss:// in place of redis://, or turn TLS on (tls)")
		case o.TLSConfig != nil && speaksPlain(ctx, addr):
			return errorWithFix(classProtocol, fmt.Errorf("%s does not speak TLS, and the connection wants it", addr),
				"write redis:// in place of rediss://, and remove tls, ca_file and cert_file, or name the TLS port")
		case o.TLSConfig != nil:
			config := o.TLSConfig.Clone()
			config.ServerName = cmp.Or(config.ServerName, host)
			if err := readTLS(ctx, addr, config); isAlert(err) {
				return newError(classProtocol, fmt.Errorf("%s ends the TLS handshake: %w", addr, err))
			}
		}
	}
	return err
}

// speaksTLS reports whether a server answers a TLS handshake, if only to refuse it.
func speaksTLS(ctx context.Context, addr string) bool {
	err := connect(ctx, addr, func(conn net.Conn) error {
		return tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx) // only the handshake is sent
	})
	return err == nil || isAlert(err)
}

// readTLS reads after a handshake. Only then does a server that speaks TLS 1.3 refuse a
// client's certificate, and a client that writes first may find the connection reset
// instead.
func readTLS(ctx context.Context, addr string, config *tls.Config) error {
	return connect(ctx, addr, func(conn net.Conn) error {
		_, err := tls.Client(conn, config).Read(make([]byte, 1))
		return err
	})
}

// speaksPlain reports whether a server answers a Redis command without TLS.
func speaksPlain(ctx context.Context, addr string) bool {
	var reply [1]byte
	err := connect(ctx, addr, func(conn net.Conn) error {
		if _, err := conn.Write([]byte("PING\r\n")); err != nil {
			return err
		}
		_, err := conn.Read(reply[:])
		return err
	})
	return err == nil && (reply[0] == '+' || reply[0] == '-')
}

// connect calls use with a connection to addr. All of it may take half a second,
// which leaves time for the next attempt.
func connect(ctx context.Context, addr string, use func(net.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	end, _ := ctx.Deadline()
	_ = conn.SetDeadline(end)
	return use(conn)
}

// isAlert reports whether the other side of a TLS connection has refused it.
// crypto/tls marks alerts by the Op of a net.OpError.
func isAlert(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}

// diagnoseSentinel returns what sentinels have refused, or nil if they have refused
// nothing.
func (d *driver) diagnoseSentinel(ctx context.Context, err *remote.Error) *remote.Error {
	o, text := d.client.options, err.Err.Error()
	switch {
	case o.MasterName == "" || !strings.Contains(text, "all sentinels"):
		return nil
	case errors.Is(err.Err, redis.Nil):
		return errorWithFix(classOther, fmt.Errorf("the sentinels %s know no master %q", strings.Join(o.Addrs, ", "), o.MasterName),
			"correct master_name"+d.masters(ctx))
	case err.Class == classAuth:
		return errorWithFix(classAuth, err.Err,
			"check sentinel_username and sentinel_password: the sentinels have a password of their own")
	case err.Class == classNoPerm:
		return errorWithFix(classNoPerm, err.Err,
			"grant the user of the sentinels +sentinel +subscribe +ping and all channels")
	case strings.Contains(strings.ToLower(text), "unknown command"):
		return errorWithFix(classOther, fmt.Errorf("%s is not a sentinel", strings.Join(o.Addrs, ", ")),
			"name the sentinels, which listen on port 26379 mostly, or remove master_name")
	}
	return nil
}

// masters lists the primaries that the sentinels monitor, for a message.
func (d *driver) masters(ctx context.Context) string {
	for _, addr := range d.client.options.Addrs {
		o := d.client.options.Simple()
		o.Addr, o.DB = addr, 0
		o.Username, o.Password = d.config.SentinelUsername, d.config.SentinelPassword
		sentinel := redis.NewSentinelClient(o)
		reply, err := sentinel.Masters(ctx).Result()
		_ = sentinel.Close()
		if err != nil {
			continue
		}
		var names []string
		for _, m := range reply {
			fields, _ := m.([]any)
			if i := slices.Index(fields, any("name")); i >= 0 && i+1 < len(fields) {
				names = append(names, fmt.Sprintf("%q", fields[i+1]))
			}
		}
		slices.Sort(names)
		return ": they watch " + cmp.Or(strings.Join(names[:min(len(names), 10)], ", "), "none")
	}
	return ""
}

// certificateFix returns how to fix an error about a certificate, or "" for other errors.
func certificateFix(err error) string {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		return "set ca_file to the certificate of the authority that signed the server's"
	case errors.As(err, &host):
		return "name the server as its certificate does, or set server_name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "renew the server's certificate, or correct the clock of this machine"
	case isAlert(err) && strings.Contains(err.Error(), "certificate"):
		return "set cert_file and key_file to a certificate that the server accepts"
	case isAlert(err):
		return "allow TLS 1.2 or 1.3 on the server"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "correct the server's certificate, or ca_file"
	}
	return ""
}
