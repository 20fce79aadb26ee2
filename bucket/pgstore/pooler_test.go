package pgstore

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/jackc/pgx/v5/pgproto3"
)

// pooler pools by transaction, as PgBouncer does, at its worst: no transaction of a
// client is on the connection to the server that the one before was on. It knows no
// prepared statements.
type pooler struct {
	target   string
	listener net.Listener
}

func newPooler(t *testing.T, target string) *pooler {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &pooler{target, l}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(t.Context(), func() { _ = c.Close() })
			wg.Go(func() {
				defer func() { _ = c.Close() }()
				_ = p.serve(c) // clients that leave, or servers that stop
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return p
}

// serve forwards a client's transactions to two connections in turn.
func (p *pooler) serve(c net.Conn) error {
	client := pgproto3.NewBackend(c, c)
	startup, err := client.ReceiveStartupMessage()
	if err != nil {
		return err
	}
	if _, ok := startup.(*pgproto3.StartupMessage); !ok {
		return errors.New("a request to cancel, say")
	}
	var servers [2]*pgproto3.Frontend
	for i := range servers {
		s, err := net.Dial("tcp", p.target)
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }()
		servers[i] = pgproto3.NewFrontend(s, s)
		servers[i].Send(startup)
		if err := servers[i].Flush(); err != nil {
			return err
		}
		to := client
		if i > 0 {
			to = nil // it has had its answer
		}
		if err := answers(servers[i], to); err != nil {
			return err
		}
	}
	for n := 0; ; n++ {
		server := servers[n%len(servers)]
		for {
			m, err := client.Receive()
			if err != nil {
				return err
			}
			server.Send(m)
			_, sync := m.(*pgproto3.Sync)
			if _, query := m.(*pgproto3.Query); query || sync {
				break
			}
		}
		if err := server.Flush(); err != nil {
			return err
		}
		if err := answers(server, client); err != nil {
			return err
		}
	}
}

// answers passes on what a server says until it is ready for the next transaction.
func answers(server *pgproto3.Frontend, client *pgproto3.Backend) error {
	for {
		m, err := server.Receive()
		if err != nil {
			return err
		}
		if client != nil {
			client.Send(m)
		}
		if _, ready := m.(*pgproto3.ReadyForQuery); !ready {
			continue
		}
		if client == nil {
			return nil
		}
		return client.Flush()
	}
}

// Behind a pooler that pools by transaction the store works if it prepares nothing there;
// else the error says what to add to the URL.
func TestPooledByTransaction(t *testing.T) {
	t.Parallel()
	at := newSite(t)
	p := newPooler(t, at.server.Addr)
	url := strings.Replace(at.server.URL("node", "postgres"), at.server.Addr, p.listener.Addr().String(), 1)
	for _, mode := range []string{"exec", "simple_protocol"} {
		at.reloaded(t, patient(url+"&default_query_exec_mode="+mode))
	}
	s, err := Open(t.Context(), patient(url))
	if s != nil {
		closeLater(t, s)
	}
	if classify(err) != classProtocol || errors.Is(err, bucket.ErrAway) || !strings.Contains(err.Error(), "add default_query_exec_mode=exec to the URL") {
		t.Errorf("with prepared statements: %v", err)
	}
}
