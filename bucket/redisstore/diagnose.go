package redisstore

import (
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

// diagnose finds the cause of an error at the start that a client cannot name
// by itself: TLS on one side only, and what sentinels refuse. It returns err
// where it knows no better.
func (d *driver) diagnose(ctx context.Context, err *remote.Error) *remote.Error {
	ctx, cancel := context.WithTimeout(ctx, 2*d.config.batchTimeout())
	defer cancel()
	o := d.client.options
	if o.MasterName != "" {
		if better := d.diagnoseSentinel(ctx, err); better != nil {
			return better
		}
	}
	switch err.Class {
	case classReset, classTimeout, classProtocol, classRefused, classOther:
	default: // Redis has answered
		return err
	}
	if certificateFix(err.Err) != "" {
		return err
	}
	for _, addr := range o.Addrs {
		if strings.HasPrefix(addr, "/") { // a socket
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
			if alert := handshakeAlert(ctx, addr, o.TLSConfig); alert != nil {
				return newError(classProtocol, fmt.Errorf("%s ends the TLS handshake: %w", addr, alert))
			}
		}
	}
	return err
}

// speaksTLS tells whether a server answers a TLS handshake, if only to refuse
// it.
func speaksTLS(ctx context.Context, addr string) bool {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(deadline(ctx))
	err = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx) //nolint:gosec // nothing is sent but the handshake
	return err == nil || isAlert(err)
}

// handshakeAlert is the alert by which a server refuses this client, nil if it does
// not. TLS 1.3 tells after the handshake, and whoever writes then may find the
// connection reset instead.
func handshakeAlert(ctx context.Context, addr string, config *tls.Config) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil
	}
	config = config.Clone()
	if config.ServerName == "" {
		config.ServerName = host
	}
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", addr)
	if err == nil {
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(deadline(ctx))
		_, err = conn.Read(make([]byte, 1))
	}
	if isAlert(err) {
		return err
	}
	return nil
}

// isAlert tells whether the other side of a TLS connection has refused it, in
// the words of crypto/tls.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// speaksPlain tells whether a server answers a command of Redis without TLS.
func speaksPlain(ctx context.Context, addr string) bool {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(deadline(ctx))
	var reply [1]byte
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	_, err = conn.Read(reply[:])
	return err == nil && (reply[0] == '+' || reply[0] == '-')
}

// deadline leaves time for the next attempt.
func deadline(ctx context.Context) time.Time {
	const most = 500 * time.Millisecond
	at := time.Now().Add(most)
	if end, ok := ctx.Deadline(); ok && end.Before(at) {
		return end
	}
	return at
}

// diagnoseSentinel names what sentinels have answered; nil: they have not.
func (d *driver) diagnoseSentinel(ctx context.Context, err *remote.Error) *remote.Error {
	o, text := d.client.options, err.Err.Error()
	switch {
	case !strings.Contains(text, "all sentinels"):
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

// masters lists what the sentinels watch, for a message.
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
		if len(names) > 0 {
			return ": they watch " + strings.Join(names[:min(len(names), 10)], ", ")
		}
		return ": they watch none"
	}
	return ""
}

// certificateFix tells what to do about a certificate; "" if err is not about
// one.
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
