package pgstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket/registry"
	"github.com/fastlimit/fastlimit/bucket/storetest/trial"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"
)

// message is one of the server; its length is said to be longer by more.
func message(kind byte, body string, more int) string {
	return string(binary.BigEndian.AppendUint32([]byte{kind}, uint32(4+len(body)+more))) + body
}

func encoded(messages ...pgproto3.BackendMessage) string {
	var b []byte
	for _, m := range messages {
		b, _ = m.Encode(b) // there is room
	}
	return string(b)
}

// What PostgreSQL sends passes, in pieces of any size, and what cannot be does not.
func TestMessages(t *testing.T) {
	t.Parallel()
	for text, fine := range map[string]bool{
		message('Z', "I", 0) + message('D', strings.Repeat("a", maxMessage-4), 0): true, message('D', strings.Repeat("a", maxMessage-3), 0): false,
		message('1', "", 0) + message('n', "", 0): true, message('1', "", -1): false, message('1', "", -4): false, "D\x80\x00\x00\x00": false, "D\xff\xff\xff\xff": false,
		message('S', strings.Repeat("a", maxSetting-4), 0): true, message('S', strings.Repeat("a", maxSetting-3), 0): false,
		strings.Repeat(message('S', "a\x00b\x00", 0), maxSettings): true, strings.Repeat(message('S', "a\x00b\x00", 0), maxSettings+1): false,
	} {
		for _, piece := range []int{1, 7, len(text)} {
			m := &messages{Reader: strings.NewReader(text)}
			got, err := io.ReadAll(pieces{m, piece})
			if (err == nil) != fine || fine && (string(got) != text || m.left != 0 || m.have != 0) {
				t.Errorf("%.40q in pieces of %d: %v, %d bytes", text, piece, err, len(got))
			}
			if err != nil && classify(err) != classProtocol {
				t.Errorf("%.40q: %v", text, asError(err))
			}
		}
	}
}

// pieces reads at most so many bytes at once.
type pieces struct {
	io.Reader
	most int
}

func (p pieces) Read(b []byte) (int, error) { return p.Reader.Read(b[:min(len(b), p.most)]) }

// welcome is what a server says before it is asked for anything, and to what a node asks
// first on a connection.
var welcome = encoded(&pgproto3.AuthenticationOk{}, &pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"}, &pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"},
	&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte("1234")}, &pgproto3.ReadyForQuery{TxStatus: 'I'})

var isolation = rows([]uint32{pgtype.TextOID}, "read committed")

// rows answers a query of the simple protocol.
func rows(types []uint32, values ...string) string {
	head, row := &pgproto3.RowDescription{}, &pgproto3.DataRow{}
	for i, oid := range types {
		head.Fields = append(head.Fields, pgproto3.FieldDescription{Name: fmt.Appendf(nil, "c%d", i), DataTypeOID: oid, DataTypeSize: -1, TypeModifier: -1})
	}
	text := encoded(head)
	for i, v := range values {
		if row.Values = append(row.Values, []byte(v)); (i+1)%len(types) == 0 {
			text += encoded(row)
			row.Values = nil
		}
	}
	return text + encoded(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")}, &pgproto3.ReadyForQuery{TxStatus: 'I'})
}

// lying is a driver of which nothing but the server is not as ever.
func lying(t testing.TB, mode, text, more string, times int) *driver {
	t.Helper()
	c := Config{URL: "postgres://node@127.0.0.1:1/postgres?sslmode=disable&default_query_exec_mode=" + mode, Timeout: time.Minute}.WithDefaults()
	pc, err := c.pool()
	if err != nil {
		t.Fatal(err)
	}
	pc.MinConns = 0
	pc.ConnConfig.DialFunc = func(context.Context, string, string) (net.Conn, error) {
		return &trial.Liar{First: text, Then: more, Times: times}, nil
	}
	d, err := c.connect(pc)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// registry has it read one.
func (d *driver) registry(t testing.TB) error {
	t.Helper()
	r := &Registry{pool: d.pool, name: "overrides", schema: d.config.Schema}
	c, err := r.Read(t.Context())
	if err == nil && len(c.Records) > registry.MaxRecords {
		t.Errorf("%d records", len(c.Records))
	}
	return err
}

// Whoever answers as PostgreSQL decides; it takes neither the process nor its memory.
func TestHostileMessages(t *testing.T) { // not parallel: it counts all that is allocated
	mark := welcome + isolation + rows([]uint32{pgtype.Int8OID, pgtype.Int8OID}, "5", "5")
	record := encoded(&pgproto3.DataRow{Values: [][]byte{[]byte(`\x6e`), []byte(`\x` + strings.Repeat("76", 1000)), []byte("5"), []byte("5000000")}})
	long := encoded(&pgproto3.DataRow{Values: [][]byte{[]byte(`\x6e`), []byte(`\x` + strings.Repeat("76", 100_000)), []byte("5"), []byte("5000000")}})
	columns := rows([]uint32{pgtype.ByteaOID, pgtype.ByteaOID, pgtype.Int8OID, pgtype.Int8OID})
	head := columns[:strings.IndexByte(columns, 'C')] // up to the end of the table
	for name, tt := range map[string]struct{ text, more string }{
		"a long message at once": {"", message('D', "", 1<<30-10)}, "a long refusal": {"", message('E', "", 1<<29)}, "settings without an end": {"", message('S', strings.Repeat("a", 2000)+"\x00b\x00", 0)},
		"a long answer": {welcome, message('T', "", 1<<29)}, "rows of another table": {welcome + isolation + head, record},
		"records without an end": {mark + head, record}, "long records": {mark + head, long},
		"strings of any length": {welcome, message('D', "\x00\x01\x7f\xff\xff\xff", 0)}, "notices without an end": {welcome, message('N', strings.Repeat("a", 1<<16), 0)},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			mode := "simple_protocol" // after an error in it pgx says no more than "conn closed"
			if name == "a long answer" || name == "strings of any length" {
				mode = "cache_statement"
			}
			d := lying(t, mode, tt.text, tt.more, min(1<<14, 1<<28/len(tt.more)))
			errs := []error{d.registry(t)}
			if !strings.Contains(name, "records") {
				errs = append(errs, trial.AskForAll(t, d)...)
			}
			_ = d.Close()
			runtime.ReadMemStats(&after)
			mib := (after.TotalAlloc - before.TotalAlloc) >> 20
			if mib > 128 {
				t.Errorf("%d MiB allocated", mib)
			}
			for _, err := range errs {
				if c := classify(err); c != classProtocol && !(c == classReset && strings.HasPrefix(name, "notices")) {
					t.Errorf("class %v: %v", c, err)
				}
			}
		})
	}
}

// possible are messages of which some are right somewhere.
func possible() []string {
	operated := rows([]uint32{pgtype.Int8OID, pgtype.Int8OID, pgtype.BoolOID, pgtype.Int8OID}, strings.Split(strings.Repeat("1,5,f,9,", 16), ",")[:64]...)
	mark := rows([]uint32{pgtype.Int8OID, pgtype.Int8OID}, "5", "5")
	records := rows([]uint32{pgtype.ByteaOID, pgtype.ByteaOID, pgtype.Int8OID, pgtype.Int8OID}, `\x6e`, `\x76`, "5", "5000000")
	return []string{
		"T\x00\x00\x00Z\x00\x01" + strings.Repeat("0", 65) + "\x00" + strings.Repeat("0", 18) + "Z\x00\x00\x00\x050", // pgx panics
		operated, operated + mark + records + rows([]uint32{pgtype.Int8OID}, "1"), mark + records, encoded(&pgproto3.ErrorResponse{Severity: "ERROR", Code: "42883", Message: "x"}, &pgproto3.ReadyForQuery{TxStatus: 'I'}),
		encoded(&pgproto3.ParseComplete{}, &pgproto3.ParameterDescription{ParameterOIDs: []uint32{25}}, &pgproto3.NoData{}, &pgproto3.ReadyForQuery{TxStatus: 'E'}, &pgproto3.BindComplete{}, &pgproto3.EmptyQueryResponse{}),
		encoded(&pgproto3.CopyInResponse{}), encoded(&pgproto3.CopyBothResponse{}), encoded(&pgproto3.AuthenticationSASL{AuthMechanisms: []string{"SCRAM-SHA-256"}}), encoded(&pgproto3.NoticeResponse{}, &pgproto3.NotificationResponse{}),
	}
}

func lie(t testing.TB, text []byte, welcomed, simple bool) {
	begin, mode := "", "cache_statement"
	if simple {
		mode = "simple_protocol"
	}
	if welcomed {
		begin = welcome + isolation
	}
	d := lying(t, mode, begin+string(text), string(text), 1)
	trial.AskForAll(t, d)
	_ = d.registry(t)
	_ = d.Close()
}

// FuzzServer is a PostgreSQL that answers anything after its welcome.
func FuzzServer(f *testing.F) {
	for _, text := range possible() {
		f.Add([]byte(text), true, true)
		f.Add([]byte(text), true, false)
		f.Add([]byte(text), false, false)
	}
	f.Fuzz(func(t *testing.T, text []byte, welcomed, simple bool) { lie(t, text, welcomed, simple) })
}

// A PostgreSQL that answers anything, over and over, neither ends the process nor fills its
// memory.
func TestAnyAnswers(t *testing.T) { // not parallel: it measures memory
	rng, all := rand.New(rand.NewPCG(1, 3)), possible()
	trial.Grows(t, 100<<20, func() {
		for range testkit.Size(1000, 1_000_000) {
			lie(t, testkit.Mutate(rng, []byte(all[rng.IntN(len(all))])), rng.IntN(3) > 0, rng.IntN(2) == 0)
		}
	})
}
